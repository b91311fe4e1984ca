// Saves one rank's part of a checkpoint beside the training: copies it to host memory, writes it
// to a shard and makes that durable, and, on rank 0, writes the manifest when it may.
//
//   training thread   Begin ── forward, backward ── BeforeChange ── optimizer ...
//   copy              ├──── staging ─────┤
//   checksums                            ├────────┤
//   writer thread      ├────── write ──────────────────────────┤ fsync, part ┤ on_durable
//
// Writing follows the copy piece by piece and checksums are taken beside it, so that a shard is
// durable almost as soon as the disk allows. The memory is kept and used again: two buffers of the
// size of the rank's shard, the second of which is made when it is first needed. A shard is
// written with large aligned writes.
//
// Thread-compatible: one training thread. Callbacks come on threads of this.
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

// What happens at a save.
struct ShardResult {
  absl::Status status;   // OK: durable. ResourceExhausted: the disk is full; PermissionDenied;
                         // InvalidArgument: an entry that no shard can hold (LayOutShard);
                         // AlreadyExists: the shard is there already;
                         // FailedPrecondition: one has a NaN, and such are not saved;
                         // Unavailable: any other error, also no memory for the copy. Of the save
                         // nothing but the directory is left then.
  int64_t bytes = 0;     // Of the shard.
  double staging_s = 0;  // From Begin until all was copied.
  double write_s = 0;    // From then until durable; writing begins earlier.
};

class ShardSaver {
 public:
  struct Options {
    double write_limit = 0;  // Bytes per second; 0: none.
    bool save_nan = false;   // Also of floating-point entries with NaN in them.
    // Below which directories must lie (worker/shim/allowed_roots.h); none: anywhere.
    std::vector<std::string> roots = {};
  };

  // `platform` outlives this.
  ShardSaver(Platform& platform, const Options& options);
  // Waits for what is being written.
  ~ShardSaver();

  // Which part of a checkpoint the coming saves are: that of this rank, of so many. Before the
  // first save and Commit.
  void SetPlace(int rank, int ranks);

  // Once: makes memory for entries of so many bytes on a thread of its own, so that the first save
  // need not. Does not wait for it.
  void Reserve(int64_t bytes);

  // A buffer is free. WaitUntilFree returns when one is.
  bool IsFree() const;
  void WaitUntilFree();

  // Begins to save `entries` into `directory` (made if it is missing, with so many `above` it),
  // with `part`: the manifest but for files and tensors. The entries are read in the background
  // until BeforeChange has returned; those in `at_once`, which the next forward pass changes,
  // before this returns. Returns the size of the shard. Requires: IsFree().
  int64_t Begin(const std::string& directory, const Manifest& part,
                const std::vector<ShardEntry>& entries, const std::vector<ShardEntry>& at_once,
                std::function<void(const ShardResult&)> on_durable, int above = 1);

  // The entries may be changed afterwards: by this thread, or, on a GPU, by what is enqueued on its
  // current stream from now on. Costs one test while nothing is being copied.
  void BeforeChange();

  // Merges the parts of all ranks in `directory` to the manifest, which makes the checkpoint
  // complete, beside what is being written. `on_done`: DataLoss when the parts do not make up a
  // checkpoint; else as ShardResult; and the seconds it took.
  void Commit(const std::string& directory,
              std::function<void(const absl::Status&, double seconds)> on_done);

  // Returns when nothing is in line any more.
  void Drain();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_SHARD_SAVER_H_
