// Writes a shard from memory to a file, durably and in large pieces.
//
// With O_DIRECT, 1 GiB from two ranks takes 0.46 s on an ext4 disk of 2.4 GB/s (measured): as fast
// as the disk, and without using the processor. Buffered writes with one fsync take 0.6 s, copy
// each byte once more in competition with training, and push other files out of the page cache.
// More threads, or pieces above 4 MiB, are no faster. Where O_DIRECT is refused (tmpfs, some
// network file systems), writes are buffered and each piece is flushed at once (sync_file_range),
// which hides most of the fsync.
#ifndef WORKER_TRAINER_CHECKPOINT_SHARD_WRITER_H_
#define WORKER_TRAINER_CHECKPOINT_SHARD_WRITER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Alignment of memory and sizes for O_DIRECT; otherwise all writes are buffered.
inline constexpr size_t kDirectAlignment = 4096;

struct ShardWriteOptions {
  double bytes_per_second = 0;  // Limit; 0: none.
  // Blocks until the given number of the file's first bytes is in memory.
  std::function<void(size_t)> wait = [](size_t) {};
};

// Creates the file, which must not exist, and makes its bytes durable, but not its name in the
// directory. On an error (file_error.h) no file is left, except one that was there before.
absl::Status WriteShard(const std::string& path, absl::string_view contents,
                        const ShardWriteOptions& options);

// Creates the directory and up to `above` missing directories above it, and makes their names
// durable. Directories further up must exist: otherwise a file system is not mounted.
absl::Status MakeDirectory(const std::string& path, int above);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_SHARD_WRITER_H_
