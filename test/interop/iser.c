// SPDX-License-Identifier: BSD-3-Clause
// A disk by iSER, through libiscsi: `iser iser://ADDRESS/TARGET/LUN FILE` writes the whole disk,
// reads it back and compares, and leaves what it wrote in FILE for who looks at the target's side.
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { block = 512, chunk = 64 * 1024, disk = 1024 * 1024 };

static unsigned char sent[disk];

static void must(int good, struct iscsi_context* iscsi, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, iscsi != NULL ? iscsi_get_error(iscsi) : "no context");
  exit(1);
}

static void move(struct iscsi_context* iscsi, int lun, uint32_t at, int back) {
  struct scsi_task* t =
      back ? iscsi_read10_sync(iscsi, lun, at / block, chunk, block, 0, 0, 0, 0, 0)
           : iscsi_write10_sync(iscsi, lun, at / block, sent + at, chunk, block, 0, 0, 0, 0, 0);
  must(t != NULL && t->status == SCSI_STATUS_GOOD, iscsi, back ? "READ(10)" : "WRITE(10)");
  if (back)
    must(t->datain.size == chunk && memcmp(t->datain.data, sent + at, chunk) == 0, iscsi,
         "what came back is something else");
  scsi_free_scsi_task(t);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  struct iscsi_context* iscsi = iscsi_create_context("iqn.2026-01.kilim:initiator");
  must(iscsi != NULL, iscsi, "iscsi_create_context");
  struct iscsi_url* url = iscsi_parse_full_url(iscsi, argv[1]);
  must(url != NULL, iscsi, "iscsi_parse_full_url");
  iscsi_set_targetname(iscsi, url->target);
  iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
  must(iscsi_full_connect_sync(iscsi, url->portal, url->lun) == 0, iscsi, "login");
  uint32_t mixed = 2463534242u;  // Marsaglia's xorshift32
  for (int i = 0; i < disk; i++) {
    mixed ^= mixed << 13;
    mixed ^= mixed >> 17;
    mixed ^= mixed << 5;
    sent[i] = (unsigned char)mixed;
  }
  for (int back = 0; back < 2; back++)
    for (uint32_t at = 0; at < disk; at += chunk) move(iscsi, url->lun, at, back);
  FILE* file = fopen(argv[2], "wb");
  if (file == NULL || fwrite(sent, 1, disk, file) != disk || fclose(file) != 0) return 1;
  iscsi_logout_sync(iscsi);
  printf("%d bytes written and read back\n", disk);
  return 0;
}
