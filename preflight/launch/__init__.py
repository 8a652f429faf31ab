"""How a job is started on the hosts of an inventory: the command and environment of each; and what is wrong with a
start script that somebody wrote. Pure: nothing is started here."""
