#include <stdio.h>

#define LIMIT 10
#define SQUARE(x) ((x) * (x))

struct shelf {
    int size;
    char *name;
};

typedef struct {
    int first;
} pair;

enum color { RED, GREEN };

union number {
    int i;
    float f;
};

int load(const char *path, int flags);

static int hidden(struct shelf *s)
{
    return s->size;
}

char *
name_of(struct shelf *s,
        int part)
{
    if (part) {
        return s->name;
    }
    return NULL;
}
