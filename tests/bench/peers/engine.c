/* An engine that is never the bottleneck: chat completions, whole or streamed, from one thread and epoll.

   engine PORT

   Answers GET /health and GET /v1/models, and every POST as a chat completion, at once. A message may say otherwise:
   "@bench ID CHUNKS GAP_US WAIT_MS@" asks for a stream of CHUNKS, GAP_US apart, or with 0 CHUNKS for a whole answer,
   either after WAIT_MS. Each chunk carries the time (CLOCK_MONOTONIC, ns) at which it was written, as "@tNS@". When the
   connection of an answer with an ID above 0 closes before its end, the line "gone ID NS" goes to stdout; "begun ID"
   when such a request has come whole. */
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

enum { HEAD_SIZE = 16384, KEPT = 4096, READ_SIZE = 1 << 18, EVENTS = 256, MOST = 65536 };
enum state { HEAD, BODY, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, ANSWERING };

struct connection {
    int fd, heap_at; /* heap_at 0: no timer runs */
    enum state state;
    char head[HEAD_SIZE];
    int head_used;
    char body[KEPT + 1]; /* the beginning; the rest is only counted */
    int kept;
    long remaining;
    int line_length;
    bool is_chunked, is_last, is_stream, head_sent;
    long id, chunks, gap_ns, due;
    char *out; /* what the socket had no room for */
    size_t out_used;
};

static int poller, timer;
static struct connection *heap[MOST];
static int heap_used; /* heap[1] is due first */
static char piece[READ_SIZE];

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void place(struct connection *connection, int at) {
    heap[at] = connection;
    connection->heap_at = at;
}

static void sift(struct connection *connection, int at) {
    for (; at > 1 && heap[at / 2]->due > connection->due; at /= 2) place(heap[at / 2], at);
    for (int child; (child = at * 2) <= heap_used; at = child) {
        if (child < heap_used && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= connection->due) break;
        place(heap[child], at);
    }
    place(connection, at);
}

static void wake_at(struct connection *connection, long due) {
    connection->due = due;
    sift(connection, connection->heap_at ? connection->heap_at : ++heap_used);
}

static void forget_timer(struct connection *connection) {
    int at = connection->heap_at;
    if (!at) return;
    connection->heap_at = 0;
    struct connection *last = heap[heap_used--];
    if (last != connection) sift(last, at);
}

static void arm_timer(void) {
    static long armed;
    long due = heap_used ? heap[1]->due : 0;
    if (due == armed) return;
    armed = due;
    struct itimerspec when = {.it_value = {due / 1000000000L, due % 1000000000L}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void watch(struct connection *connection, int operation) {
    struct epoll_event event = {.data.ptr = connection};
    event.events = EPOLLIN | EPOLLRDHUP | (connection->out_used ? EPOLLOUT : 0);
    epoll_ctl(poller, operation, connection->fd, &event);
}

/* Closed connections are freed after the batch of events, in which they may still stand. */
static struct connection *closed[MOST];
static int closed_used;

static void end_connection(struct connection *connection) {
    if (connection->fd < 0) return;
    if (connection->state == ANSWERING && connection->id > 0) {
        printf("gone %ld %ld\n", connection->id, now());
        fflush(stdout);
    }
    forget_timer(connection);
    close(connection->fd);
    connection->fd = -1;
    closed[closed_used++] = connection;
}

static void emit(struct connection *connection, const char *data, size_t length) {
    ssize_t sent = 0;
    if (connection->fd < 0) return;
    if (!connection->out_used) {
        sent = send(connection->fd, data, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            end_connection(connection);
            return;
        }
        if (sent < 0) sent = 0;
    }
    if ((size_t)sent == length) return;
    connection->out = realloc(connection->out, connection->out_used + length - sent);
    memcpy(connection->out + connection->out_used, data + sent, length - sent);
    connection->out_used += length - sent;
    watch(connection, EPOLL_CTL_MOD);
}

static void flush_out(struct connection *connection) {
    ssize_t sent = send(connection->fd, connection->out, connection->out_used, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) end_connection(connection);
    if (sent <= 0) return;
    connection->out_used -= sent;
    memmove(connection->out, connection->out + sent, connection->out_used);
    if (!connection->out_used) watch(connection, EPOLL_CTL_MOD);
}

static void finish_answer(struct connection *connection) {
    connection->state = HEAD;
    connection->head_used = 0;
    if (connection->is_last) end_connection(connection);
}

static void answer(struct connection *connection, const char *status, const char *json) {
    char whole[2048];
    int length = snprintf(whole, sizeof whole,
                          "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
                          strlen(json), json);
    emit(connection, whole, length);
    finish_answer(connection);
}

static void answer_chat(struct connection *connection) {
    answer(connection, "200 OK",
           "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"served\","
           "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello from the engine of the "
           "bench.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":16,"
           "\"completion_tokens\":8,\"total_tokens\":24}}");
}

static int frame(char *into, const char *event) {
    return sprintf(into, "%zx\r\n%s\r\n", strlen(event), event);
}

static void stream_on(struct connection *connection, long moment) {
    char event[512], out[2048];
    int length = 0;
    if (!connection->head_sent)
        length += sprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection->head_sent = true;
    const char *begin = "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                        "\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":";
    if (connection->chunks-- > 0) {
        sprintf(event, "%s{\"content\":\"@t%019ld@\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", begin, now());
        length += frame(out + length, event);
        emit(connection, out, length);
        if (connection->fd >= 0) wake_at(connection, moment + connection->gap_ns);
        return;
    }
    sprintf(event, "%s{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n", begin);
    length += frame(out + length, event);
    length += frame(out + length, "data: [DONE]\n\n");
    length += sprintf(out + length, "0\r\n\r\n");
    emit(connection, out, length);
    if (connection->fd >= 0) finish_answer(connection);
}

static void when_due(struct connection *connection) {
    long moment = connection->due;
    forget_timer(connection);
    if (connection->is_stream)
        stream_on(connection, moment);
    else
        answer_chat(connection);
}

static void request_is_whole(struct connection *connection) {
    connection->state = ANSWERING;
    connection->id = 0;
    if (!strncmp(connection->head, "POST ", 5)) {
        long wait_ms, gap_us;
        connection->body[connection->kept] = 0;
        char *asked = strstr(connection->body, "@bench ");
        if (!asked || sscanf(asked, "@bench %ld %ld %ld %ld@", &connection->id, &connection->chunks, &gap_us, &wait_ms) != 4) {
            answer_chat(connection);
            return;
        }
        if (connection->id > 0) {
            printf("begun %ld\n", connection->id);
            fflush(stdout);
        }
        connection->is_stream = connection->chunks > 0;
        connection->head_sent = false;
        connection->gap_ns = gap_us * 1000;
        wake_at(connection, now() + wait_ms * 1000000);
    } else if (!strncmp(connection->head, "GET /v1/models", 14)) {
        answer(connection, "200 OK",
               "{\"object\":\"list\",\"data\":[{\"id\":\"served\",\"object\":\"model\",\"created\":1700000000,"
               "\"owned_by\":\"bench\"}]}");
    } else if (!strncmp(connection->head, "GET /health", 11)) {
        answer(connection, "200 OK", "{}");
    } else {
        answer(connection, "404 Not Found", "{}");
    }
}

static void head_is_whole(struct connection *connection) {
    char *length = strcasestr(connection->head, "\r\ncontent-length:");
    connection->is_chunked = strcasestr(connection->head, "\r\ntransfer-encoding: chunked") != NULL;
    connection->is_last = strcasestr(connection->head, "\r\nconnection: close") != NULL;
    connection->kept = 0;
    connection->line_length = 0;
    connection->remaining = length && !connection->is_chunked ? atol(length + 17) : 0;
    connection->state = connection->is_chunked ? CHUNK_SIZE : BODY;
    if (!connection->is_chunked && !connection->remaining) request_is_whole(connection);
}

static const char *take_head(struct connection *connection, const char *at, const char *end) {
    int before = connection->head_used;
    int room = HEAD_SIZE - 1 - before;
    int taken = end - at < room ? (int)(end - at) : room;
    memcpy(connection->head + before, at, taken);
    connection->head_used += taken;
    connection->head[connection->head_used] = 0;
    char *blank = strstr(connection->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
    if (!blank) {
        if (connection->head_used == HEAD_SIZE - 1) end_connection(connection);
        return at + taken;
    }
    blank[2] = 0;
    head_is_whole(connection);
    return at + (blank + 4 - connection->head - before);
}

static const char *take_data(struct connection *connection, const char *at, const char *end) {
    long taken = end - at < connection->remaining ? end - at : connection->remaining;
    long kept = taken < KEPT - connection->kept ? taken : KEPT - connection->kept;
    memcpy(connection->body + connection->kept, at, kept);
    connection->kept += kept;
    connection->remaining -= taken;
    if (!connection->remaining && connection->state == BODY) request_is_whole(connection);
    if (!connection->remaining && connection->state == CHUNK_DATA) connection->state = CHUNK_END;
    return at + taken;
}

static void take_framing(struct connection *connection, char byte) {
    if (byte == '\r') return;
    if (byte != '\n') {
        connection->line_length++;
        int digit = byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10;
        if (connection->state == CHUNK_SIZE) connection->remaining = connection->remaining * 16 + digit;
        return;
    }
    if (connection->state == CHUNK_SIZE)
        connection->state = connection->remaining ? CHUNK_DATA : TRAILER;
    else if (connection->state == CHUNK_END)
        connection->state = CHUNK_SIZE;
    else if (!connection->line_length)
        request_is_whole(connection);
    connection->line_length = 0;
}

static void readable(struct connection *connection) {
    ssize_t count = read(connection->fd, piece, READ_SIZE);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
        end_connection(connection);
        return;
    }
    for (const char *at = piece, *end = piece + count; at < end && connection->fd >= 0;) {
        if (connection->state == HEAD)
            at = take_head(connection, at, end);
        else if (connection->state == BODY || connection->state == CHUNK_DATA)
            at = take_data(connection, at, end);
        else if (connection->state == ANSWERING)
            break; /* nobody here sends the next request before the answer */
        else
            take_framing(connection, *at++);
    }
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct connection *connection = calloc(1, sizeof *connection);
        connection->fd = fd;
        watch(connection, EPOLL_CTL_ADD);
    }
}

static void handle(struct connection *connection, unsigned events) {
    if (connection->fd >= 0 && events & EPOLLOUT) flush_out(connection);
    if (connection->fd >= 0 && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) readable(connection);
}

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(arguments[1]) : 0)};
    struct epoll_event events[EVENTS];
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof address;
    signal(SIGPIPE, SIG_IGN);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) {
        perror("engine");
        return 1;
    }
    getsockname(listener, (struct sockaddr *)&address, &size);
    poller = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &listener});
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &timer});
    printf("listening %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int ready = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            unsigned long expirations;
            if (events[i].data.ptr == &listener)
                accept_all(listener);
            else if (events[i].data.ptr == &timer)
                (void)!read(timer, &expirations, sizeof expirations);
            else
                handle(events[i].data.ptr, events[i].events);
        }
        for (long moment = now(); heap_used && heap[1]->due <= moment;) when_due(heap[1]);
        while (closed_used) {
            struct connection *over = closed[--closed_used];
            free(over->out);
            free(over);
        }
        arm_timer();
    }
}
