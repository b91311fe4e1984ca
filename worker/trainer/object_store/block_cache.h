// Blocks of objects on the node's disk, shared by all trainers of its user.
//
//   <directory>/lock                  its holder adds or removes blocks; has the sum of their bytes
//   <directory>/turns                 who fetches a block holds the byte of its number (WaitTurn)
//   <directory>/blocks/<object>.<n>   the bytes of block n, and their checksum (64-bit XXH3)
//   <directory>/blocks/.<…>.<random>  is being written by whoever has it locked
//
// A block is complete or not there: it is renamed into place, and one whose size or checksum is not
// right, as after a loss of power, is removed. All files together never exceed the limit, nor take
// what others need of the disk: room is reserved before it is written. Blocks that were not read
// for the longest time go first. What a process that was killed has left behind is removed when
// room is needed.
//
// Thread-safe, also among processes.
#ifndef WORKER_TRAINER_OBJECT_STORE_BLOCK_CACHE_H_
#define WORKER_TRAINER_OBJECT_STORE_BLOCK_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace paceline {

// A block's place in the cache.
struct BlockName {
  std::string object;  // Letters and digits: which version of which object.
  int64_t number = 0;

  std::string Text() const;
};

// Of the file system that has a directory, in bytes.
struct DiskSpace {
  int64_t total = 0;      // 0: it has no limit of its own, as a tmpfs may.
  int64_t available = 0;  // To this process.
};

// Returns the disk space where `directory` is; nothing: it is not known.
using DiskSpaceOf = std::function<std::optional<DiskSpace>(const std::string& directory)>;

// As the system says it.
std::optional<DiskSpace> OwnDiskSpace(const std::string& directory);

class BlockCache {
 public:
  // The right to fetch a block, until this goes. Also without it a block may be fetched and kept:
  // twice is waste, but no harm.
  class Turn {
   public:
    explicit Turn(int fd) : fd_(fd) {}
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&& other) = delete;
    ~Turn();

   private:
    int fd_;
  };

  // Uses this directory, which is made if its parent is there. `most_bytes`: the limit, at least 1.
  // FailedPrecondition, with what to do, when it cannot be used, or belongs to another user or is
  // open to others, who could change what is trained on.
  static absl::StatusOr<std::unique_ptr<BlockCache>> Open(const std::string& directory,
                                                          int64_t most_bytes,
                                                          DiskSpaceOf disk_space = OwnDiskSpace);

  // Reads bytes from `begin` on of a block that has `block_bytes`. False: it is not here.
  bool Read(const BlockName& name, size_t block_bytes, size_t begin, absl::Span<char> out);

  // Waits for up to `patience`, or until `is_over` returns true, while somebody else fetches this
  // block.
  Turn WaitTurn(const BlockName& name, absl::Duration patience,
                absl::FunctionRef<bool()> is_over) const;

  // Keeps a block, for which others go if the limit or the disk has no room beside them. The disk
  // has none when less than 5 % of it, or 1 GiB if that is less, would be left; the log says once
  // that blocks went for that. ResourceExhausted when there is no room all the same;
  // DeadlineExceeded when a process that is stopped has the cache locked; other errors of files as
  // they are. The cache stays usable.
  absl::Status Keep(const BlockName& name, absl::string_view bytes);

  int64_t most_bytes() const { return most_bytes_; }

 private:
  BlockCache(std::string directory, int64_t most_bytes, DiskSpaceOf disk_space)
      : directory_(std::move(directory)),
        most_bytes_(most_bytes),
        disk_space_(std::move(disk_space)) {}

  std::string BlocksDir() const { return directory_ + "/blocks"; }
  // How many bytes the disk lacks for `bytes` more beside its reserve; at most 0: it has room.
  int64_t MissingOnDisk(int64_t bytes) const;
  // Writes the sum of what is there, which is not known after a loss of power or under a lower
  // limit.
  absl::Status Count();
  // Opens and locks a new file of `bytes` under `temporary`, for which there is room. Returns its
  // descriptor.
  absl::StatusOr<int> Reserve(const std::string& temporary, int64_t bytes);
  // Removes blocks until `bytes` more fit below the limit, and the disk has `missing` bytes more.
  // Returns the sum of what is left. Requires: the cache is locked.
  int64_t MakeRoom(int64_t bytes, int64_t missing);
  // This process has compared the block's checksum, or made it. `bytes`: of the block's file.
  void SetVerified(const std::string& text, int64_t bytes);

  const std::string directory_;
  const int64_t most_bytes_;
  const DiskSpaceOf disk_space_;
  std::atomic<bool> has_told_of_disk_{false};

  absl::Mutex mutex_;
  // Blocks whose checksums this process has compared, or made, and the sum of their files' bytes.
  // It is at most twice the limit: beyond, all are forgotten.
  absl::flat_hash_set<std::string> verified_ ABSL_GUARDED_BY(mutex_);
  int64_t verified_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_BLOCK_CACHE_H_
