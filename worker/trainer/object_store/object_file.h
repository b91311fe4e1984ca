// An object of a store, read in blocks (object_store.h).
#ifndef WORKER_TRAINER_OBJECT_STORE_OBJECT_FILE_H_
#define WORKER_TRAINER_OBJECT_STORE_OBJECT_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/core/object_url.h"
#include "common/mapped_file/range_source.h"
#include "worker/trainer/object_store/object_store.h"

namespace paceline {

class ObjectFile : public RangeSource {
 public:
  ObjectFile(std::shared_ptr<ObjectStore> store, std::string name, ObjectUrl url);
  // Ends what is under way.
  ~ObjectFile() override;

  // Finds out size and version. Call it once, before all else. Errors as for
  // ObjectStore::OpenObject.
  absl::Status Open();

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return version_.size; }
  absl::Status Read(uint64_t offset, size_t bytes, char* out) const override;
  bool Expect(uint64_t offset, size_t bytes) const override;

 private:
  using Bytes = std::shared_ptr<const std::string>;  // Several readers wait for one block.

  struct Fetching {
    bool is_done = false;
    absl::Status status;
    Bytes bytes;  // Null if the status is not OK.
  };

  size_t SizeOf(int64_t block) const;
  BlockName NameOf(int64_t block) const { return {id_, block}; }

  absl::Status ReadFromBlock(int64_t block, size_t begin, absl::Span<char> out) const;
  // Fetches a block, or waits for whoever does so already.
  absl::StatusOr<Bytes> Obtain(int64_t block) const;
  // From the store, or from the cache if another process has kept it meanwhile.
  absl::StatusOr<Bytes> Fetch(int64_t block) const;
  // ResourceExhausted where Fetch has too little memory, so that others who wait hear of it.
  absl::StatusOr<Bytes> FetchWithinMemory(int64_t block) const;
  void Prefetch(int64_t block) const;
  // Puts the block into the cache, else among the recent ones.
  void Keep(int64_t block, const Bytes& bytes) const;
  Bytes FindRecent(int64_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Asks for bytes from `first` on, again and again if need be. `version` null: of any version.
  absl::Status Request(uint64_t first, const ObjectVersion* version, absl::Span<char> out,
                       StoreAnswer* answer) const;
  // Whether reads are to end: the object is closed, or they are interrupted.
  bool IsOver() const;
  absl::Status Cancelled() const;
  // Returns earlier when reads are to end.
  void Wait(absl::Duration delay) const;

  const std::shared_ptr<ObjectStore> store_;
  const std::string name_;
  const ObjectUrl url_;
  // Set by Open.
  ObjectVersion version_;
  std::string id_;  // Of this version, in the cache.

  std::atomic<bool> stopping_{false};
  mutable std::atomic<bool> keeps_{false};  // The last block went into the cache.
  mutable std::atomic<bool> has_warned_{false};

  mutable absl::Mutex mutex_;
  mutable absl::CondVar arrived_;
  mutable std::map<int64_t, std::shared_ptr<Fetching>> fetching_ ABSL_GUARDED_BY(mutex_);
  mutable std::set<int64_t> expected_ ABSL_GUARDED_BY(mutex_);  // Tasks of the pool.
  // Blocks that were in the cache when they were last looked for.
  mutable std::vector<bool> cached_ ABSL_GUARDED_BY(mutex_);
  // Newest last; of those that are not in the cache.
  mutable std::deque<std::pair<int64_t, Bytes>> recent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_OBJECT_FILE_H_
