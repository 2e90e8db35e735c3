// plain_reader HOST PORT NAME: reads a whole buffer of a gpurdma server and verifies it. In plain C on librdmacm and
// libibverbs, written from docs/protocol.md alone ("section n" is of that document), to prove that this can be done.
// It sends one request and one READ at a time. Where something fails it exits; the kernel takes everything down.

#define _DEFAULT_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { USAGE = 1, NO_CONNECTION = 2, REFUSED = 3, TRANSFER_FAILED = 4, DATA_WRONG = 5 };  // exit statuses
enum { OPEN = 1, LEASE, GET_CHECKSUMS, CHECKSUMS, RENEW, RENEWED, RELEASE, RELEASED, ERROR = 11, PING, PONG, NOTICE };
// The id of a work request is the slot of its RECV, or says what was sent. One request at a time needs 1 + 4 RECVs.
enum { RECVS = 5, REQUEST_SENT = RECVS, PONG_SENT, READ_DONE, IDS };
enum { REPLY_SIZE = 512, PATIENCE_MS = 30000, MAX_CHUNK = 16 << 20 };

static struct rdma_cm_id* id;
static struct ibv_comp_channel* channel;
static struct ibv_cq* cq;
static struct ibv_mr *wire_region, *data_region;
static struct { uint8_t recv[RECVS][REPLY_SIZE], request[256], pong[8]; } wire;
static uint8_t answer[REPLY_SIZE];  // to the request of id `request_id`; its size is 0 until it is there
static uint32_t answer_size, request_id, rkey, block_size;
static int posted[IDS], pong_due;
static uint8_t* data;
static uint64_t size, lease_id, address, renew_at_ms;

#define SAY(...) (fprintf(stderr, "plain_reader: " __VA_ARGS__), fputc('\n', stderr))
#define DIE(status, ...) (SAY(__VA_ARGS__), exit(status))

static uint64_t get(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | at[bytes];
  return value;
}

static void put(uint8_t* at, int bytes, uint64_t value) {
  for (; bytes-- > 0; value >>= 8) *at++ = (uint8_t)value;
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint32_t crc32c(const uint8_t* at, uint64_t bytes) {
  uint32_t crc = ~UINT32_C(0);
  while (bytes-- > 0) {
    crc ^= *at++;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82F63B78) : 0);
  }
  return ~crc;
}

// The sentence whose size stands at `at`, at most `room` bytes, fit for a terminal.
static const char* sentence(const uint8_t* at, uint64_t room) {
  static char text[REPLY_SIZE];
  const uint64_t bytes = get(at, 2) < room ? get(at, 2) : room;
  for (uint64_t i = 0; i < bytes; ++i) text[i] = at[2 + i] >= 0x20 && at[2 + i] <= 0x7E ? (char)at[2 + i] : '?';
  text[bytes] = 0;
  return text;
}

static void post_recv(unsigned slot) {
  struct ibv_sge sge = {(uintptr_t)wire.recv[slot], REPLY_SIZE, wire_region->lkey};
  struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
  const int error = ibv_post_recv(id->qp, &wr, &bad);
  if (error != 0) DIE(TRANSFER_FAILED, "cannot post a RECV: %s", strerror(error));
  posted[slot] = 1;
}

static void post(unsigned what, void* from, uint32_t bytes, uint64_t remote) {
  struct ibv_sge sge = {(uintptr_t)from, bytes, what == READ_DONE ? data_region->lkey : wire_region->lkey};
  struct ibv_send_wr wr = {.wr_id = what, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.opcode = what == READ_DONE ? IBV_WR_RDMA_READ : IBV_WR_SEND;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = rkey;
  const int error = ibv_post_send(id->qp, &wr, &bad);
  if (error != 0) DIE(TRANSFER_FAILED, "cannot post a SEND or READ: %s", strerror(error));
  posted[what] = 1;
}

static void received(const uint8_t* m, uint32_t bytes) {
  if (bytes < 8 || get(m + 2, 2) != bytes) DIE(TRANSFER_FAILED, "malformed message from the server");
  const uint64_t type = get(m, 2), for_request = get(m + 4, 4);
  if (type == PING) {
    put(wire.pong, 8, PONG | 8 << 16 | for_request << 32);
    pong_due = 1;
  } else if (type == NOTICE && bytes >= 26) {
    SAY("notice: %s (code %u)", sentence(m + 24, bytes - 26), (unsigned)get(m + 10, 2));
  } else if (type == ERROR && bytes >= 12 && for_request == 0) {
    DIE(TRANSFER_FAILED, "the server hung up: %s (code %u)", sentence(m + 10, bytes - 12), (unsigned)get(m + 8, 2));
  } else if (for_request == request_id && answer_size == 0) {
    memcpy(answer, m, answer_size = bytes);
  } else {
    DIE(TRANSFER_FAILED, "a message of type %u was not expected", (unsigned)type);
  }
}

// Waits for one completion and deals with it.
static void step(void) {
  struct ibv_wc wc;
  int count;
  // Arm before polling: what completes in between raises an event.
  while ((count = ibv_req_notify_cq(cq, 0) == 0 ? ibv_poll_cq(cq, 1, &wc) : -1) == 0) {
    struct pollfd fds[] = {{channel->fd, POLLIN, 0}, {id->channel->fd, POLLIN, 0}};
    if (poll(fds, 2, PATIENCE_MS) <= 0) DIE(TRANSFER_FAILED, "nothing happened for %d s", PATIENCE_MS / 1000);
    if (fds[0].revents == 0) DIE(TRANSFER_FAILED, "the server or the device ended the connection");
    struct ibv_cq* which;
    void* context;
    if (ibv_get_cq_event(channel, &which, &context) != 0) DIE(TRANSFER_FAILED, "no event: %s", strerror(errno));
    ibv_ack_cq_events(which, 1);
  }
  if (count < 0) DIE(TRANSFER_FAILED, "cannot poll the completion queue");
  static const char* const names[IDS] = {[REQUEST_SENT] = "SEND", [PONG_SENT] = "SEND", [READ_DONE] = "READ"};
  const unsigned what = (unsigned)wc.wr_id;
  if (wc.status != IBV_WC_SUCCESS)
    DIE(TRANSFER_FAILED, "%s failed: %s", what < RECVS ? "RECV" : names[what], ibv_wc_status_str(wc.status));
  posted[what] = 0;
  if (what < RECVS) {
    received(wire.recv[what], wc.byte_len);
    post_recv(what);
  }
  if (pong_due && !posted[PONG_SENT]) {
    pong_due = 0;
    post(PONG_SENT, wire.pong, 8, 0);
  }
}

// Sends the request whose first fields are `a` and `b`, what follows standing in wire.request; waits for its answer.
static void ask(int type, uint32_t bytes, uint64_t a, uint64_t b, int answer_type, uint64_t expected_size) {
  put(wire.request, 4, (uint64_t)type | (uint64_t)bytes << 16);
  put(wire.request + 4, 4, ++request_id);
  put(wire.request + 8, 8, a);
  if (bytes >= 24) put(wire.request + 16, 8, b);
  answer_size = 0;
  post(REQUEST_SENT, wire.request, bytes, 0);
  while (answer_size == 0 || posted[REQUEST_SENT]) step();
  if (get(answer, 2) == ERROR && answer_size >= 12)
    DIE(REFUSED, "refused: %s (code %u)", sentence(answer + 10, answer_size - 12), (unsigned)get(answer + 8, 2));
  if (get(answer, 2) != (uint64_t)answer_type || answer_size != expected_size)
    DIE(TRANSFER_FAILED, "an answer has type %u and %u bytes", (unsigned)get(answer, 2), answer_size);
}

static void connect_to(const char* host, const char* port) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
  if (rdma_getaddrinfo(host, port, &hints, &found) != 0)
    DIE(NO_CONNECTION, "cannot look up %s port %s: %s", host, port, strerror(errno));
  if (rdma_create_ep(&id, found, NULL, NULL) != 0)
    DIE(NO_CONNECTION, "no RDMA device leads to %s: %s", host, strerror(errno));
  rdma_freeaddrinfo(found);
  channel = ibv_create_comp_channel(id->verbs);
  cq = channel != NULL ? ibv_create_cq(id->verbs, IDS, NULL, channel, 0) : NULL;
  wire_region = ibv_reg_mr(id->pd, &wire, sizeof wire, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_qp_init_attr attributes = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  attributes.cap = (struct ibv_qp_cap){IDS - RECVS, RECVS, 1, 1, 0};  // a request, a pong and a READ
  if (cq == NULL || wire_region == NULL || rdma_create_qp(id, NULL, &attributes) != 0)
    DIE(NO_CONNECTION, "cannot set up the RDMA device: %s", strerror(errno));
  for (unsigned slot = 0; slot < RECVS; ++slot) post_recv(slot);

  uint8_t hello[40] = {'g', 'R', 'D', 'M', sizeof hello, 0, 1, 1};
  if (getrandom(hello + 24, 16, 0) != 16) DIE(NO_CONNECTION, "no random numbers: %s", strerror(errno));
  struct rdma_conn_param parameters = {.private_data = hello, .private_data_len = sizeof hello, .initiator_depth = 1};
  parameters.retry_count = parameters.rnr_retry_count = 6;
  const int error = rdma_connect(id, &parameters) != 0 ? errno : 0;
  // librdmacm keeps the event with which the call ended, and in it the server's private data, zero-padded.
  const uint8_t* const said = id->event != NULL ? id->event->param.conn.private_data : NULL;
  const uint64_t room = said != NULL ? id->event->param.conn.private_data_len : 0;
  const uint64_t length = room >= 12 && memcmp(said, "gRDM", 4) == 0 && get(said + 4, 2) <= room ? get(said + 4, 2) : 0;
  if (error != 0 && length >= 12)
    DIE(REFUSED, "refused: %s (code %u)", sentence(said + 10, length - 12), (unsigned)get(said + 8, 2));
  if (error != 0) DIE(NO_CONNECTION, "cannot connect to %s port %s: %s", host, port, strerror(error));
  if (length < 60 || said[6] != 1 || said[7] != 1 || get(said + 52, 2) < 1)
    DIE(NO_CONNECTION, "%s port %s is no gpurdma server of version 1", host, port);
}

static void take_lease(const char* name) {
  memcpy(wire.request + 24, name, strlen(name));
  const uint64_t asked_at = now_ms();
  ask(OPEN, 88, 0, ~UINT64_C(0), LEASE, 96);
  lease_id = get(answer + 8, 8);
  address = get(answer + 16, 8);
  size = get(answer + 24, 8);
  rkey = (uint32_t)get(answer + 48, 4);
  renew_at_ms = asked_at + get(answer + 52, 4) / 2;
  block_size = (uint32_t)get(answer + 56, 4);
  if (size == 0 || size > SIZE_MAX || size != get(answer + 32, 8) || block_size == 0)
    DIE(TRANSFER_FAILED, "the server offers an impossible lease");
  data = malloc(size);
  data_region = data != NULL ? ibv_reg_mr(id->pd, data, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
  if (data_region == NULL)
    DIE(TRANSFER_FAILED, "cannot register %llu bytes: %s", (unsigned long long)size, strerror(errno));
}

static void renew_if_due(void) {
  const uint64_t asked_at = now_ms();
  if (asked_at < renew_at_ms) return;
  ask(RENEW, 16, lease_id, 0, RENEWED, 24);
  renew_at_ms = asked_at + get(answer + 16, 4) / 2;
}

static void read_all(void) {
  struct ibv_port_attr port;
  if (ibv_query_port(id->verbs, id->port_num, &port) != 0) DIE(TRANSFER_FAILED, "cannot query the port");
  const uint32_t longest = port.max_msg_sz < MAX_CHUNK ? port.max_msg_sz : MAX_CHUNK;
  for (uint64_t at = 0, chunk; at < size; at += chunk) {
    chunk = size - at < longest ? size - at : longest;
    renew_if_due();
    post(READ_DONE, data + at, (uint32_t)chunk, address + at);
    while (posted[READ_DONE]) step();
  }
}

static int verify(void) {
  int wrong = 0;
  for (uint64_t block = 0, count, blocks = (size - 1) / block_size + 1; block < blocks; block += count) {
    count = blocks - block < 120 ? blocks - block : 120;
    renew_if_due();
    put(wire.request + 24, 8, count);
    ask(GET_CHECKSUMS, 32, lease_id, block, CHECKSUMS, 24 + 4 * count);
    if (get(answer + 8, 8) != block || get(answer + 16, 4) != count) DIE(TRANSFER_FAILED, "checksums of other blocks");
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = (block + i) * block_size, bytes = size - at < block_size ? size - at : block_size;
      if (crc32c(data + at, bytes) != get(answer + 24 + 4 * i, 4)) ++wrong;
    }
  }
  return wrong;
}

// The queue pair goes into the error state and its RECVs come home; only then is memory taken from under it.
static void close_all(void) {
  rdma_disconnect(id);
  struct ibv_wc wc;
  for (int home = 0, waited_ms = 0; home < RECVS && waited_ms < 1000; ++waited_ms) {
    while (ibv_poll_cq(cq, 1, &wc) > 0) home += wc.wr_id < RECVS;
    if (home < RECVS) poll(NULL, 0, 1);
  }
  rdma_destroy_qp(id);
  ibv_dereg_mr(data_region);
  ibv_dereg_mr(wire_region);
  ibv_destroy_cq(cq);
  ibv_destroy_comp_channel(channel);
  rdma_destroy_ep(id);
  free(data);
}

int main(int argc, char** argv) {
  if (argc != 4) DIE(USAGE, "usage: plain_reader HOST PORT NAME");
  const size_t length = strspn(argv[3], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
  if (length < 1 || length > 64 || argv[3][length] != 0 || argv[3][0] == '.' || argv[3][0] == '-')
    DIE(USAGE, "no buffer can have this name");
  connect_to(argv[1], argv[2]);
  take_lease(argv[3]);
  read_all();
  const int wrong = verify();
  if (wrong != 0) SAY("%d blocks have another checksum than the server's", wrong);
  printf("read %llu bytes, data %s\n", (unsigned long long)size, wrong == 0 ? "OK" : "WRONG");
  ask(RELEASE, 24, lease_id, size, RELEASED, 16);
  close_all();
  return wrong == 0 ? 0 : DATA_WRONG;
}
