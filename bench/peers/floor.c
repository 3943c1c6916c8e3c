/* A peer: the floor. It looks for a word in each request and sends an answer that was encoded beforehand, with the
 * request's id put in. No JSON is parsed and nothing is made: what this takes, client, kernel and copying take.
 *
 *     floor FOLDER ENTRIES PORT
 *
 * FOLDER/floor-ENTRIES holds the answers, numbered from 0 in the order in which they are tried: `N.needle` is the word,
 * `N.modern` and `N.legacy` are what follows the id. Requests are those of this harness: short, ids are numbers. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ANSWERS = 1024, CHUNK = 65536, CONNECTIONS = 4096, PARTS = 960 };

struct bytes { char *start; size_t length; };
struct answer { struct bytes needle, rest[2]; };

static const char BEFORE_ID[] = "{\"jsonrpc\":\"2.0\",\"id\":";
static struct answer answers[ANSWERS];
static int known;

static void fail(const char *what) { perror(what); exit(1); }

static int load(struct bytes *into, const char *folder, int number, const char *kind) {
    char path[4096];
    struct stat found;
    snprintf(path, sizeof path, "%s/%d.%s", folder, number, kind);
    int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    if (fstat(file, &found) < 0) fail(path);
    into->length = (size_t)found.st_size;
    into->start = malloc(into->length + 1);
    for (size_t done = 0; done < into->length;) {
        ssize_t size = read(file, into->start + done, into->length - done);
        if (size <= 0) fail(path);
        done += (size_t)size;
    }
    close(file);
    return 1;
}

static void write_all(int target, struct iovec *parts, int count) {
    while (count > 0) {
        ssize_t written = writev(target, parts, count);
        if (written < 0) exit(0);
        while (count > 0 && (size_t)written >= parts->iov_len) {
            written -= (ssize_t)parts->iov_len;
            parts++, count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
}

/* Give the three parts of an answer: what stands before the id, the id, and the rest. 0: nothing is to be answered. */
static int answer_to(char *request, size_t length, struct iovec *parts) {
    char *id = memmem(request, length, "\"id\":", 5);
    if (!id) return 0;
    id += 5;
    int is_legacy = !memmem(request, length, "2026-07-28", 10);
    for (int number = 0; number < known; number++) {
        struct answer *one = &answers[number];
        if (!memmem(request, length, one->needle.start, one->needle.length)) continue;
        parts[0] = (struct iovec){(void *)BEFORE_ID, sizeof BEFORE_ID - 1};
        parts[1] = (struct iovec){id, strspn(id, "0123456789")};
        parts[2] = (struct iovec){one->rest[is_legacy].start, one->rest[is_legacy].length};
        return 3;
    }
    return 0;
}

static void serve_stdio(void) {
    static char buffer[CHUNK];
    static struct iovec parts[PARTS + 4];
    size_t kept = 0;
    ssize_t size;
    while ((size = read(0, buffer + kept, sizeof buffer - kept)) > 0) {
        size_t end = kept + (size_t)size, start = 0;
        int count = 0;
        char *newline;
        while ((newline = memchr(buffer + start, '\n', end - start))) {
            int more = answer_to(buffer + start, (size_t)(newline - buffer) - start, parts + count);
            if (more) {
                count += more;
                parts[count++] = (struct iovec){"\n", 1};
            }
            start = (size_t)(newline - buffer) + 1;
            if (count >= PARTS) write_all(1, parts, count), count = 0;
        }
        write_all(1, parts, count);
        kept = end - start;
        memmove(buffer, buffer + start, kept);
    }
}

struct connection { size_t kept; char buffer[CHUNK]; };

/* Answer what came in on a connection, if it is a whole request; -1: the connection ended. */
static int serve_once(int socket, struct connection *one) {
    ssize_t size = read(socket, one->buffer + one->kept, sizeof one->buffer - one->kept);
    if (size <= 0) return -1;
    one->kept += (size_t)size;
    char *head = memmem(one->buffer, one->kept, "\r\n\r\n", 4);
    char *length = head ? memmem(one->buffer, (size_t)(head - one->buffer), "content-length: ", 16) : NULL;
    if (!length) return 0;
    char *body = head + 4;
    size_t wanted = strtoul(length + 16, NULL, 10);
    if ((size_t)(one->buffer + one->kept - body) < wanted) return 0;
    struct iovec parts[4];
    char told[128];
    int more = answer_to(body, wanted, parts + 1);
    size_t total = 0;
    for (int number = 1; number <= more; number++) total += parts[number].iov_len;
    int written = snprintf(told, sizeof told,
                           "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n",
                           more ? "200 OK" : "202 Accepted", total);
    parts[0] = (struct iovec){told, (size_t)written};
    write_all(socket, parts, 1 + more);
    one->kept = 0;
    return 0;
}

static void serve_http(int port) {
    static struct connection *connections[CONNECTIONS];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int yes = 1, listening = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) < 0 || listen(listening, 128) < 0) fail("listen");
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listening}, found[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listening, &wanted);
    for (;;) {
        int count = epoll_wait(poll, found, 64, -1);
        for (int number = 0; number < count; number++) {
            int socket = found[number].data.fd;
            if (socket == listening) {
                int made = accept(listening, NULL, NULL);
                if (made < 0 || made >= CONNECTIONS) fail("accept");
                setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                if (!connections[made]) connections[made] = malloc(sizeof **connections);
                connections[made]->kept = 0;
                wanted.data.fd = made;
                epoll_ctl(poll, EPOLL_CTL_ADD, made, &wanted);
            } else if (serve_once(socket, connections[socket]) < 0) {
                close(socket);
            }
        }
    }
}

int main(int count, char **words) {
    if (count != 4) return 2;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/floor-%s", words[1], words[2]);
    while (known < ANSWERS && load(&answers[known].needle, folder, known, "needle") &&
           load(&answers[known].rest[0], folder, known, "modern") &&
           load(&answers[known].rest[1], folder, known, "legacy"))
        known++;
    int port = atoi(words[3]);
    if (port) serve_http(port);
    serve_stdio();
    return 0;
}
