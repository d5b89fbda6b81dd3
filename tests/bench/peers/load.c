/* Clients whose clock is precise: one thread, epoll. The request is a file: its head and body as they are sent.

   load rate PORT FILE RATE SECONDS        so many requests a second, due at fixed times whatever became of others
   load streams PORT FILE COUNT SECONDS    so many streams at once, for as long after the last of them began

   The first says at its end {"requests", "errors", "p50_us", "p99_us", "max_us"}, from the time a request was due to the
   last byte of its answer. The second reads the times that engine.c wrote into the chunks; it prints "open N chunks M" at
   intervals, and at its end {"streams", "errors", "chunks", "first_p50_us", "first_p99_us", "p50_us", "p99_us",
   "max_us"}: from connecting to the first chunk, and from a chunk's writing to its coming. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, EVENTS = 512, READ_SIZE = 1 << 16, TAIL = 24, HEAD_SIZE = 8192, SAMPLES = 1 << 22 };
enum { SETTLE_SECONDS = 5 }; /* how long answers may be waited for behind the last request */

struct client {
    int fd;
    bool is_busy, has_first, is_chunked;
    long began;
    size_t to_send;
    char seen[HEAD_SIZE + 1]; /* the beginning of an answer, or the last bytes of a piece of a stream */
    long used, length, expected;
    char end[5]; /* the last bytes of a chunked answer */
};

struct samples {
    long count, *values;
};

static struct client *clients[MOST];
static int client_count, poller;
static char *request;
static size_t request_length;
static struct sockaddr_in address = {.sin_family = AF_INET};
static long errors, open_streams, chunks, is_steady;
static struct samples delays, firsts;
static char piece[READ_SIZE + TAIL + 1];

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void note(struct samples *samples, long value) {
    if (!samples->values) samples->values = malloc(SAMPLES * sizeof *samples->values);
    if (samples->count < SAMPLES) samples->values[samples->count++] = value;
}

static int compare(const void *one, const void *other) {
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}

static double quantile(struct samples *samples, double share) {
    if (!samples->count) return -1;
    qsort(samples->values, samples->count, sizeof *samples->values, compare);
    long at = (long)(share * samples->count);
    return samples->values[at < samples->count ? at : samples->count - 1] / 1000.0;
}

static void watch(struct client *client, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (client->to_send ? EPOLLOUT : 0), .data.ptr = client};
    epoll_ctl(poller, operation, client->fd, &event);
}

static void end_client(struct client *client, bool is_error) {
    if (client->fd < 0) return;
    errors += is_error;
    open_streams -= client->has_first;
    close(client->fd);
    client->fd = -1;
    client->is_busy = client->has_first = false;
}

static void send_on(struct client *client) {
    ssize_t sent = send(client->fd, request + request_length - client->to_send, client->to_send, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) sent = 0;
    if (sent < 0) {
        end_client(client, true);
        return;
    }
    bool was_whole = client->to_send == 0;
    client->to_send -= sent;
    if (!was_whole) watch(client, EPOLL_CTL_MOD);
}

static void begin(struct client *client, long moment) {
    client->began = moment;
    client->is_busy = true;
    client->used = client->length = 0;
    client->expected = -1;
    client->is_chunked = false;
    client->to_send = request_length;
    memset(client->end, 0, sizeof client->end);
    if (client->fd < 0) {
        int yes = 1;
        client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (connect(client->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) {
            end_client(client, true);
            return;
        }
        watch(client, EPOLL_CTL_ADD);
    } else {
        send_on(client);
    }
}

static struct client *new_client(void) {
    struct client *client = calloc(1, sizeof *client);
    client->fd = -1;
    return clients[client_count++] = client;
}

static struct client *idle_client(void) {
    for (int i = 0; i < client_count; i++)
        if (!clients[i]->is_busy) return clients[i];
    return client_count < MOST ? new_client() : NULL;
}

/* Whole answers. */

static void read_head(struct client *client) {
    char *blank = strstr(client->seen, "\r\n\r\n");
    if (!blank) return;
    char *length = strcasestr(client->seen, "\r\ncontent-length:");
    client->is_chunked = strcasestr(client->seen, "\r\ntransfer-encoding: chunked") != NULL;
    client->expected = blank + 4 - client->seen + (length && length < blank ? atol(length + 17) : 0);
}

static void take_answer(struct client *client, ssize_t count) {
    long room = HEAD_SIZE - client->used;
    long kept = count < room ? count : room;
    memcpy(client->seen + client->used, piece, kept);
    client->used += kept;
    client->seen[client->used] = 0;
    client->length += count;
    if (client->expected < 0) read_head(client);
    for (ssize_t i = count > 5 ? count - 5 : 0; i < count; i++) {
        memmove(client->end, client->end + 1, 4);
        client->end[4] = piece[i];
    }
    bool is_over = client->is_chunked ? !memcmp(client->end, "0\r\n\r\n", 5) : client->length >= client->expected;
    if (client->expected < 0 || !is_over) return;
    client->is_busy = false;
    errors += strncmp(client->seen, "HTTP/1.1 200", 12) != 0;
    note(&delays, now() - client->began);
    if (strcasestr(client->seen, "\r\nconnection: close")) end_client(client, false);
}

/* Streams. */

static void take_chunks(struct client *client, ssize_t count) {
    long moment = now();
    /* A mark may stand across two pieces: the last bytes of the one before come first. */
    static char joined[READ_SIZE + TAIL + 1];
    memcpy(joined, client->seen, client->used);
    memcpy(joined + client->used, piece, count);
    char *at = joined, *end = joined + client->used + count, *rest = end - joined > TAIL ? end - TAIL : joined;
    *end = 0;
    while ((at = memmem(at, end - at, "@t", 2)) && end - at >= 22) {
        if (at[21] == '@') {
            if (!client->has_first) {
                note(&firsts, moment - client->began);
                client->has_first = true;
                open_streams++;
            } else if (is_steady) {
                note(&delays, moment - atol(at + 2));
            }
            chunks++;
        }
        at += 2;
        if (rest < at) rest = at;
    }
    client->used = end - rest;
    memcpy(client->seen, rest, client->used);
}

static void handle(struct client *client, unsigned events, bool is_stream) {
    if (client->fd >= 0 && events & EPOLLOUT && client->to_send) send_on(client);
    if (client->fd < 0 || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t count = read(client->fd, piece, READ_SIZE);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0)
        end_client(client, client->is_busy);
    else if (is_stream)
        take_chunks(client, count);
    else if (client->is_busy)
        take_answer(client, count);
}

static bool is_any_busy(void) {
    for (int i = 0; i < client_count; i++)
        if (clients[i]->is_busy) return true;
    return false;
}

static void wait_until(int timer, long moment, bool is_stream) {
    struct epoll_event events[EVENTS];
    struct itimerspec when = {.it_value = {moment / 1000000000L, moment % 1000000000L}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
    while (now() < moment) {
        int ready = epoll_wait(poller, events, EVENTS, 1000);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr) handle(events[i].data.ptr, events[i].events, is_stream);
    }
}

static void at_a_rate(int timer, long rate, double seconds) {
    long began = now(), requests = (long)(rate * seconds);
    for (long i = 0; i < requests; i++) {
        long due = began + i * 1000000000L / rate;
        wait_until(timer, due, false);
        struct client *client = idle_client();
        if (client) begin(client, due);
        errors += client == NULL;
    }
    for (long limit = now() + SETTLE_SECONDS * 1000000000L; is_any_busy() && now() < limit;)
        wait_until(timer, now() + 1000000, false);
    for (int i = 0; i < client_count; i++) end_client(clients[i], clients[i]->is_busy);
    printf("{\"requests\": %ld, \"errors\": %ld, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", requests, errors,
           quantile(&delays, 0.5), quantile(&delays, 0.99), quantile(&delays, 1));
}

static void tell(void) {
    printf("open %ld chunks %ld\n", open_streams, chunks);
    fflush(stdout);
}

static void in_streams(int timer, long count, double seconds) {
    long gap = 1000000; /* a stream each millisecond, so that a thousand do not speak at the same time */
    for (long i = 0; i < count; i++) {
        begin(new_client(), now());
        wait_until(timer, now() + gap, true);
    }
    for (long limit = now() + SETTLE_SECONDS * 1000000000L; open_streams + errors < count && now() < limit;)
        wait_until(timer, now() + 10 * gap, true);
    is_steady = true;
    tell();
    for (long end = now() + (long)(seconds * 1e9), next = now(); next < end;) {
        next += 250 * gap;
        wait_until(timer, next < end ? next : end, true);
        tell();
    }
    printf("{\"streams\": %ld, \"errors\": %ld, \"chunks\": %ld, \"first_p50_us\": %.1f, \"first_p99_us\": %.1f, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
           open_streams, count - open_streams, chunks, quantile(&firsts, 0.5), quantile(&firsts, 0.99),
           quantile(&delays, 0.5), quantile(&delays, 0.99), quantile(&delays, 1));
}

static char *read_file(const char *name, size_t *length) {
    FILE *file = fopen(name, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *length = ftell(file);
    rewind(file);
    char *data = malloc(*length);
    *length = fread(data, 1, *length, file);
    fclose(file);
    return data;
}

int main(int count, char **arguments) {
    signal(SIGPIPE, SIG_IGN);
    if (count != 6 || !(request = read_file(arguments[3], &request_length))) {
        fprintf(stderr, "load rate|streams PORT FILE RATE|COUNT SECONDS\n");
        return 2;
    }
    address.sin_port = htons(atoi(arguments[2]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    poller = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
    long number = atol(arguments[4]);
    if (number < 1 || number > MOST) return 2;
    if (!strcmp(arguments[1], "streams"))
        in_streams(timer, number, atof(arguments[5]));
    else
        at_a_rate(timer, number, atof(arguments[5]));
    return 0;
}
