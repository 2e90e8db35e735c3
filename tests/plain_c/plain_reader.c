// plain_reader HOST PORT NAME: reads a whole buffer of a gpurdma server and verifies it. Plain C on librdmacm alone,
// written from docs/protocol.md ("section n" is of that document), to prove that a reader can be.
//
// It leaves out what a read of some MiB does without. One request or READ is under way at a time, and a ping waits for
// the end of the READ before it. It renews no lease: all must be read within the first one's duration (section 7). It
// keeps one block of the bytes at a time, reads no parts of buffers, asks for no list, joins no session (section 9) and
// heeds no notice. Where something fails it exits, and the kernel takes everything down.

#define _DEFAULT_SOURCE
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { USAGE = 1, NO_CONNECTION = 2, REFUSED = 3, TRANSFER_FAILED = 4, DATA_WRONG = 5 };  // exit statuses
enum { OPEN = 1, LEASE, GET_CHECKSUMS, CHECKSUMS, RELEASE = 7, RELEASED, ERROR = 11, PING, PONG, NOTICE };  // section 3
enum { RECVS = 1 + 4, REPLY_SIZE = 512, PATIENCE_S = 30 };  // RECVS for one request at a time (section 1)

static struct rdma_cm_id* id;
static struct ibv_mr* region;  // of all that the adapter touches:
static struct { uint8_t recv[RECVS][REPLY_SIZE], request[88], pong[8], block[1 << 20]; } memory;
static uint8_t answer[REPLY_SIZE];
static int status_if_late = NO_CONNECTION;

#define DIE(status, ...) (fprintf(stderr, "plain_reader: " __VA_ARGS__), fputc('\n', stderr), exit(status))

static void too_late(int signal) {
  static const char text[] = "plain_reader: the server does not answer\n";
  const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  _exit(signal == SIGALRM && written > 0 ? status_if_late : TRANSFER_FAILED);
}

static uint64_t get(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | at[bytes];
  return value;
}

static void put(uint8_t* at, uint64_t value) {
  for (int i = 0; i < 8; ++i, value >>= 8) at[i] = (uint8_t)value;
}

static uint32_t crc32c(const uint8_t* at, uint32_t bytes) {  // section 8
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

static void post_recv(uintptr_t slot) {
  if (rdma_post_recv(id, (void*)slot, memory.recv[slot], REPLY_SIZE, region) != 0)
    DIE(TRANSFER_FAILED, "cannot post a RECV: %s", strerror(errno));
}

// Waits for the SEND or READ, given what posting it returned.
static void finish(const char* what, int posted) {
  struct ibv_wc wc;
  if (posted != 0 || rdma_get_send_comp(id, &wc) < 1) DIE(TRANSFER_FAILED, "cannot %s: %s", what, strerror(errno));
  if (wc.status != IBV_WC_SUCCESS) DIE(TRANSFER_FAILED, "%s failed: %s", what, ibv_wc_status_str(wc.status));
}

// Sends the request with these two first fields, what follows standing in memory.request. Its answer is then in
// `answer`.
static void ask(uint64_t type, uint32_t bytes, uint64_t field8, uint64_t field16, uint64_t answer_type, uint32_t size) {
  static uint32_t request_id;
  put(memory.request, type | (uint64_t)bytes << 16 | (uint64_t)++request_id << 32);
  put(memory.request + 8, field8);
  put(memory.request + 16, field16);
  alarm(PATIENCE_S);
  finish("SEND", rdma_post_send(id, NULL, memory.request, bytes, region, IBV_SEND_SIGNALED));
  for (;;) {
    struct ibv_wc wc;
    if (rdma_get_recv_comp(id, &wc) < 1) DIE(TRANSFER_FAILED, "cannot RECV: %s", strerror(errno));
    if (wc.status != IBV_WC_SUCCESS) DIE(TRANSFER_FAILED, "RECV failed: %s", ibv_wc_status_str(wc.status));
    memcpy(answer, memory.recv[wc.wr_id], wc.byte_len);
    post_recv((uintptr_t)wc.wr_id);
    const uint64_t got = get(answer, 2), for_id = get(answer + 4, 4);
    if (wc.byte_len < 8 || get(answer + 2, 2) != wc.byte_len) DIE(TRANSFER_FAILED, "malformed message");
    if (got == answer_type && for_id == request_id && wc.byte_len == size) return;
    if (got == PING) {
      put(memory.pong, PONG | 8 << 16 | for_id << 32);
      finish("SEND", rdma_post_send(id, NULL, memory.pong, 8, region, IBV_SEND_SIGNALED));
    } else if (got == ERROR && wc.byte_len >= 12) {  // an id of 0: the server hangs up (section 4)
      DIE(for_id == request_id ? REFUSED : TRANSFER_FAILED, "refused: %s (code %u)",
          sentence(answer + 10, wc.byte_len - 12), (unsigned)get(answer + 8, 2));
    } else if (got != NOTICE) {
      DIE(TRANSFER_FAILED, "a message of type %u was not expected", (unsigned)got);
    }
  }
}

static void connect_to(const char* host, const char* port) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
  if (rdma_getaddrinfo(host, port, &hints, &found) != 0)
    DIE(NO_CONNECTION, "cannot look up %s port %s: %s", host, port, strerror(errno));
  struct ibv_qp_init_attr attributes = {.cap = {1, RECVS, 1, 1, 0}, .sq_sig_all = 1};
  if (rdma_create_ep(&id, found, NULL, &attributes) != 0)
    DIE(NO_CONNECTION, "no RDMA device leads to %s: %s", host, strerror(errno));
  rdma_freeaddrinfo(found);
  if ((region = rdma_reg_msgs(id, &memory, sizeof memory)) == NULL)
    DIE(NO_CONNECTION, "cannot register memory: %s", strerror(errno));
  for (uintptr_t slot = 0; slot < RECVS; ++slot) post_recv(slot);

  uint8_t hello[40] = {'g', 'R', 'D', 'M', sizeof hello, 0, 1, 1};  // section 2
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
  status_if_late = TRANSFER_FAILED;
}

int main(int argc, char** argv) {
  if (argc != 4) DIE(USAGE, "usage: plain_reader HOST PORT NAME");
  const size_t length = strspn(argv[3], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
  if (length < 1 || length > 64 || argv[3][length] != 0 || argv[3][0] == '.' || argv[3][0] == '-')
    DIE(USAGE, "no buffer can have this name");
  signal(SIGALRM, too_late);
  alarm(PATIENCE_S);
  connect_to(argv[1], argv[2]);

  memcpy(memory.request + 24, argv[3], length);
  ask(OPEN, 88, 0, ~UINT64_C(0), LEASE, 96);  // from the first byte to the end
  const uint64_t lease = get(answer + 8, 8), address = get(answer + 16, 8), size = get(answer + 24, 8);
  const uint32_t rkey = (uint32_t)get(answer + 48, 4), block_size = (uint32_t)get(answer + 56, 4);
  if (size - 1 > INT64_MAX || size != get(answer + 32, 8) || block_size - 1 >= sizeof memory.block)
    DIE(TRANSFER_FAILED, "the server offers a lease that this program cannot use");

  int wrong = 0;
  for (uint64_t at = 0, block = 0; at < size; at += block_size, ++block) {
    const uint32_t bytes = size - at < block_size ? (uint32_t)(size - at) : block_size;
    put(memory.request + 24, 1);  // the count
    ask(GET_CHECKSUMS, 32, lease, block, CHECKSUMS, 24 + 4);
    if (get(answer + 8, 8) != block || get(answer + 16, 4) != 1) DIE(TRANSFER_FAILED, "checksums of other blocks");
    finish("READ", rdma_post_read(id, NULL, memory.block, bytes, region, IBV_SEND_SIGNALED, address + at, rkey));
    wrong |= crc32c(memory.block, bytes) != get(answer + 24, 4);
  }
  printf("read %llu bytes, data %s\n", (unsigned long long)size, wrong ? "WRONG" : "OK");

  ask(RELEASE, 24, lease, size, RELEASED, 16);
  rdma_disconnect(id);
  rdma_destroy_qp(id);  // from here on nothing writes into `memory`
  rdma_dereg_mr(region);
  rdma_destroy_ep(id);
  return wrong ? DATA_WRONG : 0;
}
