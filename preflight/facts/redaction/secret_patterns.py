"""Patterns of secrets. In each, the first group stays, and the last one is removed. Pure data.

A secret is found by its name, by the program that takes it as an argument, or by its form. A random word is found by a
keyword before it. A pattern is compiled at its first use: all of them take 50 ms, and most commands need none.
"""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Secret:
    """A kind of secret. `random`: the value has to look random.

    `hints`: the pattern is not tried on an ASCII text that has, in lower case, none of these.
    """

    hints: tuple[str, ...]
    text: str
    flags: re.RegexFlag
    random: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.text, self.flags)


@dataclass(frozen=True)
class Command:
    """Programs, by their `names`, and their options that take a secret: `-P value`, `-Pvalue` or `-P=value`."""

    names: tuple[str, ...]
    letters: str  # a pattern of the options' letters

    @cached_property
    def programs(self) -> re.Pattern[str]:
        names = "|".join(self.names)
        return re.compile(rf"((?<![\w/.-])(?:[\w./-]{{0,200}}/)?(?:{names})[\w.]{{0,20}}[ \t])([^\n|;]{{1,4096}})")

    @cached_property
    def options(self) -> re.Pattern[str]:
        return re.compile(rf"((?<![\w-])-(?:{self.letters})(?:[ \t]{{1,9}}(?!-)|=)?)({_VALUE})")


# A value is the text in quotes, also escaped ones. Without quotes it ends at the next blank. After a sign with blanks
# around it, as in files of settings, it ends at the end of the line. So does the value after a quote without its end.
_QUOTED = (
    r"(?:\"(?:[^\"\\\n]|\\.){0,4096}\"|'[^'\n]{0,4096}'|\\\"[^\"\n]{0,4096}\\\")+"
    r"[^\s\"'\\,;)}\]]*|[\"'][^\n]*"  # a shell's word may continue after the quotes
)
_VALUE = rf"{_QUOTED}|\S+"
_EQUALS = "[:=：＝]"
_SIGN = rf"\\?[\"']?[ \t]{{0,9}}{_EQUALS}{{1,2}}>?[ \t]{{0,9}}"
_TO_THE_END = rf"(?:(?<=[ \t])|(?<=[ \t]{_EQUALS})|(?<=[ \t]{_EQUALS}{_EQUALS}))[^\n]+"
_LIST = r"\[(?:[^\]]{0,4096}\]|[^\n]*)"

# Names of secrets, by a part of the name: DB_PASS, AWS_SECRET_ACCESS_KEY, x-api-key, --auth-token. A shell's PWD=/ is
# no such name.
_WORDS = r"(?<!by)pass(?:w|p|code|\b|_|s\b)|pwd(?!=/)|secret|token(?!i)|credential|psk\b"
_KEYS = (
    r"(?:(?:api|access|private|secret|auth|account|signing|encryption|shared|license|session|ssh)[ _.-]?key"
    r"|client-key-data)"
)
_NUMBER = r"[\"']?-?\d[\d.,_]*(?:[ \t]?(?:[KMGTB]|ms|us|s|%)|e[+-]?\d{1,3})?[\"']?(?![\w@#$%^&*!-])"
# Names and values of settings that look like a secret's, mostly of language models.
_HARMLESS = (
    rf"tokens?(?:s|[_-]\w[\w.-]{{0,40}})(?:{_SIGN}|[ \t]{{1,9}}){_NUMBER}"
    rf"|tokens?(?:_\w{{1,20}})?(?:{_SIGN}|[ \t]{{1,9}})[\"']?(?:<[^<>\s]{{1,40}}>|\[[A-Z]{{2,12}}\d*\])"
    r"|tokens?:[ ]?\d{1,9}(?:,[ ]|\])"  # from serving frameworks, and a line of token.py
    rf"|token(?:s|_ids){_SIGN}[A-Za-z_][\w.]{{0,80}}\("
    rf"|pass(?:es)?{_SIGN}\d[\d.]*[ \t]?(?:ms|us|s|%)(?!\w)"
    rf"|[\w.-]{{1,60}}?{_SIGN}[\"']?(?:true|false|null|none|yes|no)[\"']?(?=[\s,;)}}\]]|\Z)"
    rf"|(?:pass|token|secret|credential)[\w.-]{{0,40}}?(?:name|algorithm|policy|authentication|types?|length|count"
    rf"|expir\w{{1,5}}|budget|limit){_SIGN}"
    rf"|passwd: password |tokens(?:_map)?\.json{_SIGN}"
)
# WANDB_KEY, but not a key in lower case, which names a place. RSYNC_PW, but not model.conv_pw, which is a layer.
_NAME = rf"(?:{_WORDS}|{_KEYS}|(?-i:[A-Z0-9]_KEY\b)|(?-i:(?<=_)PW\b))"
LABEL = rf"(?={_NAME})(?!{_HARMLESS}){_NAME}[\w.-]{{0,60}}"
_HAN = r"(?:密码|口令|密钥|秘钥|令牌|凭证|私钥|授权码)"
_NAMED = ("pass", "pw", "secret", "token", "credential", "psk", "key")

# First characters that identify tokens.
_PREFIXES = (
    "gh[a-z]_",
    "github_pat_",
    "gl[a-z]{2,6}-",
    "hf_(?=[A-Za-z0-9]{16})",
    "AKIA",
    "ASIA",
    "ABIA",
    "ACCA",
    "AIza",
    "eyJ",
    "nvapi-",
    "sk-",
    "xox[a-z]-",
    "xapp-",
    "[sr]k_(?:live|test)_",
    "whsec_",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "hv[sbr]\\.",
    "ya29\\.",
    "SG\\.",
    "LTAI",
    "AKID",
    "sq0[a-z]{3}-",
    "shp[a-z]{2}_",
    "lin_api_",
    "ntn_",
    "figd_",
    "gsk_",
    "r8_",
    "xai-",
    "pplx-",
    "tvly-",
    "ATATT",
    "NRAK-",
    "do[op]_v1_",
    "rnd_",
    "sbp_",
    "pscale_",
    "tskey-",
    "ms-(?=[0-9a-f]{8}-[0-9a-f]{4}-)",
    "wandb_v1_",
    "cfut_",
    "PMAK-",
    "atlasv1\\.",
    "key-(?=[0-9a-f]{32})",
)


def _secret(hints: tuple[str, ...], pattern: str, *, random: bool = False) -> Secret:
    """Return the pattern of a secret, in letters of any case."""
    return Secret(hints, pattern, re.IGNORECASE | re.MULTILINE, random)


def _exact(hints: tuple[str, ...], pattern: str) -> Secret:
    """Return the pattern of a secret, in letters of this case."""
    return Secret(hints, pattern, re.MULTILINE)


def _command(programs: str, options: str) -> Command:
    """Return the secrets of `programs` (names separated by |) in their `options`."""
    return Command(tuple(programs.split("|")), options)


_HINTS_OF_SHAPES = (
    "gh",
    "github_",
    "gl",
    "hf_",
    "akia",
    "asia",
    "abia",
    "acca",
    "aiza",
    "eyj",
    "nvapi-",
    "sk-",
    "xox",
    "xapp-",
    "k_live_",
    "k_test_",
    "whsec_",
    "npm_",
    "pypi-",
    "dckr_",
    "hv",
    "ya29",
    "sg.",
    "ltai",
    "akid",
    "sq0",
    "shp",
    "lin_api_",
    "ntn_",
    "figd_",
    "gsk_",
    "r8_",
    "xai-",
    "pplx-",
    "tvly-",
    "atatt",
    "nrak-",
    "_v1_",
    "rnd_",
    "sbp_",
    "pscale_",
    "tskey-",
    "ms-",
    "cfut_",
    "pmak-",
    "atlasv1",
    "key-",
)
_RANDOM = r"[A-Za-z0-9][\w/+.~!@#$%^&*=-]{11,200}"
_NEAR = r"(?:[ \t]+(?!commit|digest|rev|sha|hash|checksum|uuid|file|path|fingerprint)[^\s\d:=]{1,20}){0,4}?"

WHOLE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
COMMANDS = (
    _command(
        "sshpass|mosquitto_pub|mosquitto_sub|cqlsh|clickhouse-client|sqlcmd|mongosh|mongodump|mongorestore", "[pP]"
    ),
    _command("obsutil|ossutil|coscli|coscmd|obsfs", "[ikt]"),
    _command("ipmitool|ipmi-power|bmc-info", "[Pk]"),
    _command("ldapsearch|ldapwhoami|ldapadd|ldapmodify|ldapdelete|ldapcompare", "w"),
    _command("ldappasswd", "[wsa]"),
    _command("snmpwalk|snmpget|snmpbulkwalk|snmpset|snmptrap|snmptable", "[cAX]"),
    _command("zip|unzip|unrar|rar|7z|7za|7zr", "[Pp]"),
    _command("openssl", "[kK]"),
    _command("redis-cli", "a"),
    _command("racadm|redfishtool|ilorest|hponcfg", "p"),
    _command("mysql|mariadb", "p(?=[^ \t])"),
    _command("docker|podman|nerdctl|helm|skopeo|buildah|az|oc|argocd", r"p(?=[ \t]*[^\d \t/][^:]*(?:[ \t]|$))"),
)

SECRETS = (
    # YAML: the line below a key, and all deeper lines of a block.
    _secret(
        _NAMED,
        rf"^((?P<indent>[ \t]{{0,40}})(?:- )?[\"']?[\w.-]{{0,60}}?{LABEL}[\"']?:[ \t]{{0,9}}[|>][+-]?\d?[ \t]*\n)"
        r"(?P<value>(?:(?P=indent)[ \t]+[^\n]*(?:\n(?=(?P=indent)[ \t])|$))+)",
    ),
    _secret(
        _NAMED,
        rf"^((?P<indent>[ \t]{{0,40}})[\"']?[\w.-]{{0,60}}?{LABEL}[\"']?:[ \t]{{0,9}}\n(?P=indent)[ \t]+)"
        r"(?P<value>(?!- |[\w.\"'-]{1,80}:(?:\s|\Z))[^\s\[{][^\n]*)$",
    ),
    _secret(("authorization",), rf"(authorization{_SIGN})({_QUOTED}|[^\n]+)"),
    _secret(("bearer", "basic"), r"(\b(?:bearer|basic(?=[ \t]+[\w+/.~-]{0,200}[\d=]))[ \t]{1,9})([\w+/=.~-]{8,})"),
    # XML, and a property's name with its value.
    _secret(_NAMED, rf"(<[\w:.-]{{0,60}}?{LABEL}(?:\s[^<>\n]{{0,200}})?>)([^<>\n]+)(?=</)"),
    _secret(
        ("<name>",),
        rf"(<name>[^<>\n]{{0,100}}?(?:{LABEL}|\bkey)[^<>\n]{{0,60}}</name>\s{{0,40}}<value>)([^<]+)(?=<)",
    ),
    _secret(_NAMED, rf"({LABEL}{_SIGN}(?![ \t]*[|>][+-]?\d?[ \t]*(?:\n|\Z)))({_LIST}|{_QUOTED}|{_TO_THE_END}|\S+)"),
    _exact(("stdin",), rf"(-{{2}}password-stdin[ \t]{{1,9}}<<<[ \t]{{0,9}})({_VALUE})"),
    _secret(_NAMED, rf"((?<![\w-])--?[\w-]{{0,40}}?{LABEL}[ \t]{{1,9}})({_QUOTED}|[^\s-]\S*)"),
    # Access keys of object stores. A short value of such a name is no key.
    _secret(
        ("ak", "sk"),
        rf"((?<![a-z0-9])(?:[a-z]{{1,20}}_){{0,3}}[as]k{_SIGN})([\"']?[\w/+=.-]{{12,}}[\"']?)",
    ),
    # Chinese names: with a sign after them, or with a value that is no word.
    _exact(
        (),
        rf"({_HAN}(?:[（(][\w \t]{{1,20}}[)）])?[\"']?\s{{0,9}}(?:为|是)?{_EQUALS}\s{{0,9}}[「『“‘【《]?)"
        r"([\x21-\x7e]+)",
    ),
    _exact(
        ("\0",),
        rf"({_HAN}(?:[ \t]{{0,9}}(?:已)?(?:改|设|重置)?(?:为|是)[ \t]{{0,9}}|[ \t]{{1,9}}))"
        r"((?=[\x21-\x7e]*[\d@#!$%^&*])(?=[\x21-\x7e]*[A-Za-z])[\x21-\x7e]{6,})",
    ),
    # Command lines without an option that names a secret.
    _exact(("login",), rf"(\blogin\b[^\n]{{0,200}}?[ \t]{{1,9}}-p[ \t]{{0,9}})({_VALUE})"),
    _exact(
        ("-u", "user"),
        rf"((?<![\w-])(?:-[uU]|--(?:proxy-)?user)(?:[ \t=]{{1,9}}|(?![\"'])))(?!\d+:\d+\b)"
        rf"((?=[\"'][^\"'\n]{{0,200}}:){_QUOTED}|[^\s:\"']+:\S+)",
    ),  # curl
    _exact(("-u", "user"), r"((?<![\w-])(?:-U|--user)[ \t=]{0,9}[\"']?[^\s%\"']{1,80}%)([^\s\"']+)"),  # smbclient
    _exact(
        ("sudo",), rf"(\becho[ \t]{{1,9}}(?:-n[ \t]{{1,9}})?)({_QUOTED}|[^\s|]+)(?=[ \t]*\|[ \t]*sudo\b[^\n|]*-\w*S)"
    ),
    _exact(
        ("stdin",),
        rf"(\becho[ \t]{{1,9}}(?:-n[ \t]{{1,9}})?)({_QUOTED}|[^\s|]+)(?=[ \t]*\|[^\n|]*-{{2}}password-stdin)",
    ),
    _exact(
        ("cryptsetup",), rf"(\becho[ \t]{{1,9}}(?:-n[ \t]{{1,9}})?)({_QUOTED}|[^\s|]+)(?=[ \t]*\|[^\n|]*\bcryptsetup\b)"
    ),
    _exact(("wpa_passphrase",), rf"(\bwpa_passphrase[ \t]{{1,9}}\S{{1,80}}[ \t]{{1,9}})({_VALUE})"),
    _exact(
        ("login",),
        r"(\b(?:wandb|swanlab|modelscope|hf)[ \t][^\n|;]{0,80}?login(?:[ \t]{1,9}-[\w-]{1,40})*[ \t]{1,9})"
        r"([A-Za-z0-9_]{16,})",
    ),
    # Lists of arguments, and variables of containers.
    _secret(_NAMED, rf"([\"']--?[\w-]{{0,40}}?{LABEL}[\"'],[ \t]{{0,9}}(?![\"'](?:<|\d{{1,7}}[\"'])))({_QUOTED})"),
    _secret(
        ("value",),
        rf"(\bname[\"']?:[ \t]{{0,9}}[\"']?\w{{0,60}}?{LABEL}[\"']?\s{{0,9}},?\s{{1,40}}"
        r"[\"']?value[\"']?:[ \t]{0,9})"
        r"(?![\"']?(?:\d{1,5}|true|false)\b)"
        rf"({_QUOTED}|\S+)",
    ),
    _exact(("sudo",), rf"(\bsudo[ \t][^\n|;]{{0,80}}?-\w{{0,20}}S[^\n|;]{{0,200}}?<<<[ \t]{{0,9}})({_VALUE})"),
    _exact(("obscure",), rf"(\brclone[ \t]{{1,9}}obscure[ \t]{{1,9}})({_VALUE})"),
    _exact(
        ("chpasswd",), r"(\b(?:echo|printf)[ \t]{1,9}[\"']?[\w.-]{1,40}:)([^\n|\"']+)(?=[^|\n]{0,9}\|[^\n|]*chpasswd)"
    ),
    _exact(("htpasswd",), r"(\bhtpasswd[ \t]{1,9}-\w*b\w*[ \t]{1,9}\S{1,200}[ \t]{1,9}\S{1,80}[ \t]{1,9})(\S+)"),
    _secret(("net user",), r"(\bnet[ \t]{1,9}user[ \t]{1,9}[^\s/]{1,80}[ \t]{1,9})([^\s/]\S*)"),
    _exact(("alias set",), r"(\bmc[ \t]{1,9}alias[ \t]{1,9}set(?:[ \t]{1,9}\S{1,200}){2}[ \t]{1,9})(\S+[ \t]{1,9}\S+)"),
    _exact(("from-literal",), rf"(-{{2}}from-literal[= \t][\"']?[\w.-]{{1,80}}=)({_VALUE})"),
    _exact(("password",), r"((?:\blogin\s{1,9}\S{1,200}\s{1,9}|^[ \t]{0,9})password\s{1,9}(?!is:?\s))(\S+)"),  # .netrc
    _secret(("identified",), rf"(\bidentified[ \t]{{1,9}}by[ \t]{{1,9}}(?:password[ \t]{{1,9}})?)({_VALUE})"),
    _secret(("auth",), rf"(\\?[\"']auth\\?[\"'][ \t]{{0,9}}:[ \t]{{0,9}})({_QUOTED})"),  # Docker's config.json
    _secret(("cookie",), r"(\bcookie2?[ \t]{0,9}:[ \t]{0,9})([^\n]+)"),
    # Files with one login per line (.pgpass), and DSNs without a scheme.
    _exact((":",), r"^([\w.*-]{1,253}:(?:\d{4,5}|\*):[^:\s]{1,80}:[^:\s]{1,80}:)([^:\s]{6,200})$"),
    _exact(
        ("@",),
        r"((?<![\w/.:])[A-Za-z][\w.-]{0,63}:)([^\s:@/]{3,200})(?=@(?:(?:tcp|unix)\(|[\w.-]{1,253}(?::\d{1,5})?/))",
    ),
    # URLs that grant access by themselves.
    _secret(
        ("hook", "/bot"),
        r"(\bhooks\.slack\.com/[a-z]{1,20}/|/bot/v2/hook/|/api/webhooks/\d{1,20}/|/webhookb?2?/(?!send\b)"
        r"|\bapi\.telegram\.org/(?:file/)?bot|/hooks/(?=[\w-]{16}))([^\s\"'?]+)",
    ),
    _secret(
        ("sig", "key=", "code=", "auth="),
        r"([?&](?:(?:sig|sign|[\w-]{0,20}signature)=|(?:key|code|auth)=(?=[^&\s\"']{8})))([^&\s\"']+)",
    ),
    # Words that are secrets by their form.
    _exact(("$",), r"()(\$(?:[156y]|2[aby]|gy|argon2id?)\$[\w./$=,+-]{8,})"),  # of /etc/shadow
    Secret(_HINTS_OF_SHAPES, rf"()\b((?:{'|'.join(_PREFIXES)})[\w-]{{16,}}(?:\.[\w-]{{3,}}){{0,2}})", re.NOFLAG),
    _exact((":",), r"()\b(\d{8,10}:[A-Za-z0-9_-]{35})\b"),  # of Telegram
    _secret(("key",), rf"({_KEYS}[\w.-]{{0,40}}[ \t]{{1,9}})((?=[^\s\d]{{0,200}}\d)[a-z0-9+][\w/+=.-]{{15,200}})"),
    _exact(("env",), rf"(\bENV[ \t]{{1,9}}\w{{0,60}}?(?i:{LABEL})[ \t]{{1,9}})({_VALUE})"),  # Dockerfile
    # Settings with blanks, of Redis, SNMP and switches, and variables in a table.
    _secret(
        ("requirepass", "masterauth"), rf"((?:^|[ \t])(?:requirepass|masterauth)[ \t]{{1,9}}(?!(?:is|not)\b))({_VALUE})"
    ),
    _exact(("auth",), r"(>[ \t]{0,9}(?:AUTH|auth)[ \t]{1,9}(?:[\w.-]{1,80}[ \t]{1,9})?)([^\s\"']{4,})$"),
    _secret(
        ("community",),
        rf"(\b(?:snmp-server|snmp-agent|snmp)[ \t][^\n]{{0,80}}?community[ \t]{{1,9}}"
        rf"(?:(?:read|write|cipher|simple)[ \t]{{1,9}}){{0,2}})({_VALUE})",
    ),
    _secret(
        ("community",), rf"(\b(?:\w{{0,20}}_)?community{_SIGN})(?![\"']?(?:https?:|[\d.]+:?\d*\b))({_QUOTED}|[^\s,;]+)"
    ),
    _secret(("community", "com2sec"), rf"(^[ \t]{{0,9}}(?:r[ow]community6?|trapcommunity)[ \t]{{1,9}})({_VALUE})"),
    _exact(
        ("key", "pass", "secret"),
        r"(\b(?:key|password|secret)[ \t]{1,9}[5-9][ \t]{1,9})([0-9A-Fa-f]{8,}|\$\S+|[^\s]{20,})",
    ),
    _exact(("user set",), rf"(\buser[ \t]{{1,9}}set[ \t]{{1,9}}password[ \t]{{1,9}}\d{{1,3}}[ \t]{{1,9}})({_VALUE})"),
    _exact(
        ("_p", "_t", "_s", "_k"),
        r"(\b[A-Z0-9_]{1,60}_(?:PWD|PW|PASSWORD|TOKEN|SECRET|KEY)[ \t]{1,9})"
        r"((?=[^\s/:]{0,200}\d)[^\s/:=]{6,200})(?!\S)",
    ),
    _exact(("@",), r"(\b[a-z]{2}-[a-z]{3,10}-\d{1,2}@)([A-Z0-9]{16,40})\b"),  # the access key of a login to swr
    # Output of ansible-vault: a person may guess its password.
    _exact(
        ("$ansible_vault",),
        r"(\$ANSIBLE_VAULT;[\d.]{1,9};\w{1,20}(?:;\S{1,80})?\s{1,40})([0-9a-f]{16,}(?:\s{1,40}[0-9a-f]{16,})*)",
    ),
    # Sentences of persons about a password.
    _secret(
        ("pass", "pw"),
        r"(\b(?:pass(?:word|wd|phrase|code)|pw)(?:[ \t]{1,9}[a-z]{1,20}){0,3}[ \t]{1,9}(?:is|to|as):?[ \t]{1,9})"
        r"((?=\S{0,200}\d)(?=\S{0,200}[a-z])\S{6,200})",
    ),
    _secret(
        ("pass", "psk"),
        r"(\b(?:pass(?:word|wd|phrase|code)|psk)[ \t]{1,9})((?=\S{0,200}\d)(?=\S{0,200}[a-z])[^\s/:=]{8,200})(?!\S)",
    ),
    # Passwords that a person typed at a prompt that showed them.
    _secret(("pass",), r"((?:\benter|\[sudo\])[ \t]pass(?:word|phrase)[ \t]for[ \t][^:\n]{1,200}:[ \t]{0,9})(\S+)"),
    # A random word with a keyword near it.
    _secret(
        (*_NAMED, "login"),
        rf"((?<![a-z])(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|{_KEYS}|\w{{1,20}}_key|api|key|login)"
        rf"\b[\"']?{_NEAR}[ \t:=>,\"'(\n]{{1,9}})({_RANDOM})",
        random=True,
    ),
)
