/* STAND-IN: /etc/hccn.conf, written as the vendor's tool writes it (cfg.c of its source).
 *
 * Of a key that stands there twice the first counts. Setting a key drops all its lines and adds one at the end. A last
 * line without its newline is not fixed: the new line is glued to it. The file is never created. It is edited in
 * place, so that a bind mount of it into a container keeps working.
 */
#include "hccn.h"
#include "lab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static void name_of(const struct call *call, const char *key, char *name, size_t size)
{
    snprintf(name, size, "%s_%d", key, call->device);
}

bool hccn_conf_exists(void)
{
    return access(HCCN_CONF, F_OK) == 0;
}

bool hccn_conf_get(const struct call *call, const char *key, char *value, size_t size)
{
    char name[48];
    name_of(call, key, name, sizeof name);
    return lab_get(HCCN_CONF, name, value, size);
}

/* `value` NULL: only drop the key's lines. */
enum hccn_result hccn_conf_set(const struct call *call, const char *key, const char *value)
{
    char name[48], line[512];
    name_of(call, key, name, sizeof name);
    FILE *file = fopen(HCCN_CONF, "r+e");
    if (file == NULL)
        return hccn_conf_exists() ? HCCN_WRITE_CONF : HCCN_CONF_ACCESS;
    flock(fileno(file), LOCK_EX);
    char *text = NULL;
    size_t size = 0, length = strlen(name);
    FILE *edited = open_memstream(&text, &size);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) != 0 || line[length] != '=')
            fputs(line, edited);
    if (value != NULL)
        fprintf(edited, "%s=%s\n", name, value);
    fclose(edited);
    rewind(file);
    int result = ftruncate(fileno(file), 0);
    if (result == 0 && fwrite(text, 1, size, file) != size)
        result = -1;
    free(text);
    return fclose(file) == 0 && result == 0 ? HCCN_OK : HCCN_WRITE_CONF;
}
