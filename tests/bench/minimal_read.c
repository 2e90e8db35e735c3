// minimal_read serve ADDRESS PORT SIZE          registers SIZE bytes and lets one client after the other read them
// minimal_read read ADDRESS PORT SIZE COUNT     prints the microseconds of the median of COUNT READs of SIZE bytes
//
// What a READ costs that is awaited by epoll and a completion channel, with nothing around it: no protocol, no reactor.
// gpurdma-read --bench --depth 1 is compared with it.

#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

struct lent {  // the private data of the server's answer; both ends are of one machine or kind
  uint64_t address;
  uint32_t rkey;
};

static void die(const char* what) {
  fprintf(stderr, "minimal_read: %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct rdma_cm_id* endpoint(const char* address, const char* port, int flags) {
  struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *found = NULL;
  if (rdma_getaddrinfo(address, port, &hints, &found) != 0) die("rdma_getaddrinfo");
  struct ibv_qp_init_attr attributes = {
      .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}, .sq_sig_all = 1};
  struct rdma_cm_id* id = NULL;
  if (rdma_create_ep(&id, found, NULL, &attributes) != 0) die("rdma_create_ep");
  rdma_freeaddrinfo(found);
  return id;
}

static void serve(const char* address, const char* port, size_t size) {
  struct rdma_cm_id* const listener = endpoint(address, port, RAI_PASSIVE);
  void* const memory = calloc(1, size);
  if (memory == NULL || rdma_listen(listener, 1) != 0) die("rdma_listen");
  puts("ready");
  fflush(stdout);
  for (;;) {
    struct rdma_cm_id* id = NULL;
    if (rdma_get_request(listener, &id) != 0) die("rdma_get_request");
    struct ibv_mr* const region = rdma_reg_read(id, memory, size);
    if (region == NULL) die("rdma_reg_read");
    const struct lent lent = {.address = (uintptr_t)memory, .rkey = region->rkey};
    struct rdma_conn_param answer = {.private_data = &lent, .private_data_len = sizeof lent, .responder_resources = 1};
    if (rdma_accept(id, &answer) != 0) die("rdma_accept");
    // Waits for the client to leave.
    struct rdma_cm_event* event = NULL;
    if (rdma_get_cm_event(id->channel, &event) != 0) die("rdma_get_cm_event");
    rdma_ack_cm_event(event);
    rdma_disconnect(id);
    rdma_dereg_mr(region);
    rdma_destroy_ep(id);
  }
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/// Waits in epoll for a completion of `queue`, which is armed, and arms it again.
static void await_completion(int waiter, struct ibv_comp_channel* channel, struct ibv_cq* queue) {
  struct ibv_wc done;
  int count = 0;
  while (count == 0) {
    struct epoll_event ready;
    if (epoll_wait(waiter, &ready, 1, -1) < 0) die("epoll_wait");
    struct ibv_cq* from = NULL;
    void* context = NULL;
    if (ibv_get_cq_event(channel, &from, &context) != 0) continue;
    ibv_ack_cq_events(from, 1);
    if (ibv_req_notify_cq(queue, 0) != 0) die("ibv_req_notify_cq");
    count = ibv_poll_cq(queue, 1, &done);
  }
  if (count < 0 || done.status != IBV_WC_SUCCESS) die("a READ failed");
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void read_from(const char* address, const char* port, uint32_t size, size_t count) {
  struct rdma_cm_id* const id = endpoint(address, port, 0);
  void* const memory = calloc(1, size);
  double* const times = calloc(count, sizeof *times);
  struct ibv_mr* const region = rdma_reg_msgs(id, memory, size);
  if (memory == NULL || times == NULL || region == NULL) die("rdma_reg_msgs");
  struct rdma_conn_param parameters = {.initiator_depth = 1, .retry_count = 6, .rnr_retry_count = 6};
  if (rdma_connect(id, &parameters) != 0) die("rdma_connect");
  struct lent lent;
  memcpy(&lent, id->event->param.conn.private_data, sizeof lent);

  struct ibv_comp_channel* const channel = id->send_cq_channel;
  if (fcntl(channel->fd, F_SETFL, O_NONBLOCK) != 0) die("fcntl");
  const int waiter = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event wanted = {.events = EPOLLIN};
  if (waiter < 0 || epoll_ctl(waiter, EPOLL_CTL_ADD, channel->fd, &wanted) != 0) die("epoll");
  if (ibv_req_notify_cq(id->send_cq, 0) != 0) die("ibv_req_notify_cq");
  for (size_t i = 0; i < count; ++i) {
    const double start = now_us();
    if (rdma_post_read(id, NULL, memory, size, region, 0, lent.address, lent.rkey) != 0) die("rdma_post_read");
    await_completion(waiter, channel, id->send_cq);
    times[i] = now_us() - start;
  }
  qsort(times, count, sizeof *times, ascending);
  printf("%.2f\n", times[(count - 1) / 2]);
  rdma_disconnect(id);
}

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], "serve") == 0) {
    serve(argv[2], argv[3], strtoul(argv[4], NULL, 10));
  } else if (argc == 6 && strcmp(argv[1], "read") == 0) {
    read_from(argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10));
  } else {
    fprintf(stderr, "usage: minimal_read serve ADDRESS PORT SIZE | read ADDRESS PORT SIZE COUNT\n");
    return 1;
  }
  return 0;
}
