/* Preloaded, makes an adapter that registers no dma-bufs of any, so that what comes after is tried: nvidia-peermem, or a
   copy in host memory. Used by validate_hardware. */
#include <errno.h>
#include <stddef.h>

void *ibv_reg_dmabuf_mr(void *pd, unsigned long offset, size_t length, unsigned long iova, int fd, int access) {
  (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
  errno = EOPNOTSUPP;
  return NULL;
}
