/* STAND-IN: see lab.h. */
#include "lab.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int home_namespace = -1;

/* The first line of a file; empty if there is none. */
static void first_line(const char *path, char *word, int size)
{
    word[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(word, size, file) == NULL)
            word[0] = '\0';
        fclose(file);
    }
    word[strcspn(word, "\n")] = '\0';
}

enum product lab_product(void)
{
    char word[32];
    first_line(LAB_PRIVATE "/product", word, sizeof word);
    if (strcmp(word, "atlas-a3") == 0)
        return ATLAS_A3;
    return strcmp(word, "atlas-a2") == 0 ? ATLAS_A2 : ATLAS_A1;
}

bool lab_mode_is(const char *mode)
{
    char word[32];
    first_line(LAB_PRIVATE "/mode", word, sizeof word);
    return strcmp(word, mode) == 0;
}

static void device_path(char *path, size_t size, int device)
{
    snprintf(path, size, LAB_PRIVATE "/device/%d", device);
}

bool lab_device_exists(int device)
{
    char path[64];
    device_path(path, sizeof path, device);
    return access(path, F_OK) == 0;
}

int lab_device_count(void)
{
    int count = 0;
    while (count < LAB_MAX_DEVICES && lab_device_exists(count))
        count++;
    return count;
}

int lab_enter_device(int device)
{
    if (home_namespace < 0)
        home_namespace = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    char path[64];
    device_path(path, sizeof path, device);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = setns(fd, CLONE_NEWNET);
    close(fd);
    return result;
}

int lab_leave_device(void)
{
    return setns(home_namespace, CLONE_NEWNET);
}

bool lab_get(const char *path, const char *key, char *value, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char line[512];
    size_t length = strlen(key);
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            snprintf(value, size, "%s", line + length + 1);
            found = true;
        }
    }
    fclose(file);
    return found;
}

static int set_key(const char *path, const char *key, const char *value)
{
    FILE *file = fopen(path, "a+e");
    if (file == NULL)
        return -1;
    flock(fileno(file), LOCK_EX);
    char *text = NULL;
    size_t size = 0;
    FILE *edited = open_memstream(&text, &size);
    char line[512];
    size_t length = strlen(key);
    bool found = false;
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            if (!found)
                fprintf(edited, "%s=%s\n", key, value);
            found = true;
        } else {
            fputs(line, edited);
            if (strchr(line, '\n') == NULL)
                fputc('\n', edited);
        }
    }
    if (!found)
        fprintf(edited, "%s=%s\n", key, value);
    fclose(edited);
    int result = ftruncate(fileno(file), 0);
    if (result == 0 && fwrite(text, 1, size, file) != size)
        result = -1;
    free(text);
    return fclose(file) == 0 ? result : -1;
}

static void state_path(char *path, size_t size, int device)
{
    snprintf(path, size, LAB_PRIVATE "/state/%d", device);
}

bool lab_state_get(int device, const char *key, char *value, size_t size)
{
    char path[64];
    state_path(path, sizeof path, device);
    return lab_get(path, key, value, size);
}

int lab_state_set(int device, const char *key, const char *value)
{
    char path[64];
    state_path(path, sizeof path, device);
    return set_key(path, key, value);
}

long lab_state_number(int device, const char *key, long otherwise)
{
    char value[32];
    return lab_state_get(device, key, value, sizeof value) ? strtol(value, NULL, 0) : otherwise;
}

void lab_take_time(void)
{
    char value[16];
    if (lab_get(LAB_PRIVATE "/state/settings", "call_ms", value, sizeof value))
        usleep(atoi(value) * 1000);
}

bool lab_is_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
    return locked;
}
