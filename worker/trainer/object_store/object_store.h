// Opens objects of stores as files that are read in ranges (docs/object-stores.md).
//
// An object is read in blocks, which the trainers of a node share on its disk. All are of the
// version that was opened: one that has changed since is refused. A request that fails is made
// again for some minutes, unless a person has to do something first.
#ifndef WORKER_TRAINER_OBJECT_STORE_OBJECT_STORE_H_
#define WORKER_TRAINER_OBJECT_STORE_OBJECT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/core/backoff.h"
#include "common/mapped_file/range_source.h"
#include "worker/trainer/object_store/block_cache.h"
#include "worker/trainer/object_store/credentials.h"
#include "worker/trainer/object_store/fetch_pool.h"
#include "worker/trainer/object_store/http_client.h"
#include "worker/trainer/object_store/read_counters.h"
#include "worker/trainer/object_store/read_interrupt.h"

namespace paceline {

// Thread-safe. Shared by the objects that it has opened, which may outlive whoever opened them.
class ObjectStore : public std::enable_shared_from_this<ObjectStore> {
 public:
  struct Options {
    std::vector<std::string> allowed;  // Prefixes of what may be read (IsAllowedUrl).
    std::string cache_directory;       // Empty: blocks are kept in memory alone, a few of them.
    int64_t cache_bytes = 0;
    size_t block_bytes = size_t{4} << 20;
    int fetch_threads = 4;
    absl::Duration patience = absl::Seconds(120);  // For one range, with all its retries.
    // A try that takes longer, until its last byte, has failed: so long, and so much more for each
    // MiB. With a whole block, the patience has room for another one.
    absl::Duration try_limit = absl::Seconds(30);
    absl::Duration try_limit_per_mib = absl::Seconds(8);
    Backoff::Options backoff = {absl::Milliseconds(200), absl::Seconds(10), 2.0};
    uint64_t seed = 0;  // Of the delays between retries.
    Variables variables = OwnVariable;
    DiskSpaceOf disk_space = OwnDiskSpace;  // Of the cache.
    // Ends reads that wait for the store, and opening. Null: nothing does.
    std::shared_ptr<const ReadInterrupt> interrupt;
  };

  // FailedPrecondition when the cache cannot be used.
  static absl::StatusOr<std::shared_ptr<ObjectStore>> Open(Options options);

  // Opens an object and finds out its size and version. InvalidArgument: no address of an object;
  // PermissionDenied: not allowed on this node, or by the store; DeadlineExceeded: all tries have
  // failed; Cancelled: it was interrupted; otherwise errors of Judgement. All name the address. So
  // do those of reading, which are never FailedPrecondition. What the node keeps is read also while
  // reads are interrupted.
  absl::StatusOr<std::shared_ptr<const RangeSource>> OpenObject(const std::string& url);

  // The bound of what the node keeps; 0: it keeps nothing.
  int64_t cache_bytes() const { return cache_ == nullptr ? 0 : cache_->most_bytes(); }

  const Options& options() const { return options_; }
  HttpClient& http() { return http_; }
  BlockCache* cache() { return cache_.get(); }  // Null: there is none.
  FetchPool& pool() { return pool_; }
  ReadCounters& counters() { return counters_; }

 private:
  ObjectStore(Options options, std::unique_ptr<BlockCache> cache);

  const Options options_;
  const std::unique_ptr<BlockCache> cache_;
  HttpClient http_;
  FetchPool pool_;
  ReadCounters counters_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_OBJECT_STORE_H_
