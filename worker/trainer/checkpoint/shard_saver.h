// Saves one rank's part of a checkpoint while training goes on: copies it to host memory, writes it
// to a shard and makes that durable. On rank 0, also writes the manifest when asked.
//
//   training thread   Begin ── forward, backward ── BeforeChange ── optimizer ...
//   copy              ├──── staging ─────┤
//   checksums                            ├────────┤
//   writer thread      ├────── write ──────────────────────────┤ fsync, part ┤ on_durable
//
// Writing follows the copy piece by piece, and checksums are computed beside it, so a shard is
// durable almost as soon as the disk allows. Memory is reused: two buffers of the size of the
// rank's shard, the second allocated when first needed. Writes are large and aligned.
//
// Thread-compatible: one training thread. Callbacks run on threads of this class.
#ifndef WORKER_TRAINER_CHECKPOINT_SHARD_SAVER_H_
#define WORKER_TRAINER_CHECKPOINT_SHARD_SAVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/manifest.h"
#include "worker/trainer/checkpoint/shard_layout.h"
#include "worker/trainer/comm/platform.h"

namespace paceline {

// The result of a save.
struct ShardResult {
  absl::Status status;   // OK: durable. ResourceExhausted: the disk is full; PermissionDenied;
                         // InvalidArgument: an entry that no shard can hold (LayOutShard);
                         // AlreadyExists: the shard exists; FailedPrecondition: an entry has a NaN,
                         // and NaNs are not saved; Unavailable: any other error, also no memory for
                         // the copy. After an error only the directory is left.
  int64_t bytes = 0;     // Size of the shard.
  double staging_s = 0;  // From Begin until all is copied.
  double write_s = 0;    // From then until durable; writing begins before.
};

class ShardSaver {
 public:
  struct Options {
    double write_limit = 0;  // Bytes per second; 0: none.
    bool save_nan = false;   // Also save floating-point entries with a NaN.
    // Save only below these directories (worker/shim/allowed_roots.h); empty: anywhere.
    std::vector<std::string> roots = {};
  };

  // `platform` must outlive this.
  ShardSaver(Platform& platform, const Options& options);
  // Waits until all saves are written.
  ~ShardSaver();

  // Later saves are the part of `rank`, out of `ranks`. Call this before the first save or Commit.
  void SetPlace(int rank, int ranks);

  // Allocates memory for entries of `bytes` bytes on a separate thread, so that the first save need
  // not. Call it once; it does not wait.
  void Reserve(int64_t bytes);

  // Whether a buffer is free. WaitUntilFree returns when one is.
  bool IsFree() const;
  void WaitUntilFree();

  // Begins to save `entries` into `directory` (created if missing, with `above` levels above it).
  // `part` is the manifest without files and tensors. Entries are read in the background until
  // BeforeChange returns; those in `at_once`, which the next forward pass changes, are read before
  // this returns. Returns the shard's size. Requires: IsFree().
  int64_t Begin(const std::string& directory, const Manifest& part,
                const std::vector<ShardEntry>& entries, const std::vector<ShardEntry>& at_once,
                std::function<void(const ShardResult&)> on_durable, int above = 1);

  // Call before the entries change; afterwards this thread may change them, or, on a GPU, work that
  // is enqueued on its current stream. Costs one test while nothing is being copied.
  void BeforeChange();

  // Merges the parts of all ranks in `directory` into the manifest, which completes the checkpoint.
  // Runs beside writing. `on_done` gets the seconds it took and a status: DataLoss when the parts
  // do not form a checkpoint; otherwise as ShardResult.
  void Commit(const std::string& directory,
              std::function<void(const absl::Status&, double seconds)> on_done);

  // Waits until no task is queued or running.
  void Drain();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_SHARD_SAVER_H_
