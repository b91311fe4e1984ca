// Remembers which changes were answered, so that a client may safely repeat one whose answer was
// lost: the newest kMaxRequests, for kRequestMemory.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_REQUESTS_REQUEST_LOG_H_
#define CONTROLLER_CORE_REQUESTS_REQUEST_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/checkpoint_key.h"
#include "common/core/ids.h"

namespace paceline {

// How long an answer is remembered.
inline constexpr absl::Duration kRequestMemory = absl::Hours(24);
// How many answers are remembered, in some 30 MB. A caller at its full rate (rpc/call_limits.h)
// makes that many changes in a quarter of an hour; a request is repeated within a minute or two.
inline constexpr size_t kMaxRequests = 100'000;

class RequestLog {
 public:
  struct Entry {
    uint64_t fingerprint = 0;       // Of the request's contents.
    JobId job;                      // What it was about.
    absl::Time time;                // Wall; when it was first answered.
    CheckpointKey checkpoint = {};  // The job's checkpoint that it was about, if any.
  };

  enum class Verdict { kNew, kRepeat, kReused };

  explicit RequestLog(size_t most = kMaxRequests) : most_(most) {}

  // Whether `id` is new, repeats the same request, or was used for another one.
  Verdict Check(const std::string& id, uint64_t fingerprint) const {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return Verdict::kNew;
    return found->second.fingerprint == fingerprint ? Verdict::kRepeat : Verdict::kReused;
  }

  // Requires: Check(id) was kRepeat.
  const Entry& Find(const std::string& id) const { return entries_.at(id); }

  // Requires: Check(id) is kNew.
  void Add(const std::string& id, Entry entry) {
    by_time_.emplace(entry.time, id);
    entries_[id] = std::move(entry);
  }

  // Forgets the answers older than kRequestMemory, and the oldest ones until there is room for one
  // more. Returns their ids.
  std::vector<std::string> Expire(absl::Time wall_now) {
    std::vector<std::string> expired;
    while (!by_time_.empty() &&
           (entries_.size() >= most_ || by_time_.begin()->first < wall_now - kRequestMemory)) {
      expired.push_back(by_time_.begin()->second);
      entries_.erase(by_time_.begin()->second);
      by_time_.erase(by_time_.begin());
    }
    return expired;
  }

 private:
  const size_t most_;
  std::map<std::string, Entry> entries_;
  std::multimap<absl::Time, std::string> by_time_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_REQUEST_LOG_H_
