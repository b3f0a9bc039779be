// SPDX-License-Identifier: BSD-3-Clause
// What the first device's firmware answers to QUERY_HCA_CAP, for check_truth.py: a line a group,
// its number and its bytes. Knows rdma-core only, so that it says the same of a card. A device
// without DevX is not asked.
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { header = 16, group_bytes = 4096, opcode = 0x0100, current_values = 1 };

static int query(struct ibv_context* device, unsigned group) {
  const unsigned op_mod = group << 1 | current_values;
  const unsigned char in[header] = {
      opcode >> 8, 0, 0, 0, 0, 0, (unsigned char)(op_mod >> 8), (unsigned char)op_mod};
  static unsigned char out[header + group_bytes];
  memset(out, 0, sizeof out);
  if (mlx5dv_devx_general_cmd(device, in, sizeof in, out, sizeof out) != 0) {
    fprintf(stderr, "query_caps: no answer for group 0x%x: %s\n", group, strerror(errno));
    return 1;
  }
  printf("caps %u ", group);
  for (int i = header; i < header + group_bytes; i++) printf("%02x", out[i]);
  printf("\n");
  return 0;
}

int main(int words, char** word) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  if (devices == NULL || devices[0] == NULL) {
    fprintf(stderr, "query_caps: there is no device\n");
    return 1;
  }
  struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
  struct ibv_context* device = mlx5dv_open_device(devices[0], &attr);
  int failed = 0;
  if (device == NULL) printf("no DevX\n");
  for (int i = 1; device != NULL && i < words; i++)
    failed |= query(device, (unsigned)strtoul(word[i], NULL, 0));
  if (device != NULL) ibv_close_device(device);
  ibv_free_device_list(devices);
  return failed;
}
