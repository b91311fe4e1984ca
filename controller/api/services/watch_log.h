// The recent changes of one kind of resource, so that a watcher can resume after a break.
//
// A change is kept in the form in which watchers get it, encoded once for all of them, along with
// the key by which they filter. The oldest are forgotten beyond a number of changes or of bytes;
// the newest one is kept whatever its size.
//
// Revisions grow by one with each change and are never reused, even over restarts: the upper half
// of a revision counts the controller's starts. Changes that were forgotten, or come from before
// the start, are compacted: the watcher has to list again.
//
// Event: a message with a `revision` field. Thread-compatible.
#ifndef CONTROLLER_API_SERVICES_WATCH_LOG_H_
#define CONTROLLER_API_SERVICES_WATCH_LOG_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "controller/wire/encoded_message.h"

namespace paceline {

// Key by which watchers filter changes.
struct WatchKey {
  std::string id;         // For a node: its name.
  std::string submitter;  // For a job only.
};

template <typename Event>
class WatchLog {
 public:
  struct Change {
    int64_t revision = 0;
    WatchKey key;
    grpc::ByteBuffer encoded;  // The event, with the revision.
  };

  WatchLog(int64_t starts, size_t max_changes, size_t max_bytes)
      : max_changes_(max_changes), max_bytes_(max_bytes), revision_(starts << 32) {}

  // Revision of the latest change.
  int64_t revision() const { return revision_; }

  // Records a change as the next revision.
  void Append(WatchKey key, Event event) {
    event.set_revision(++revision_);
    changes_.push_back({revision_, std::move(key), Encode(event)});
    bytes_ += changes_.back().encoded.Length();
    while (changes_.size() > 1 && (changes_.size() > max_changes_ || bytes_ > max_bytes_)) {
      bytes_ -= changes_.front().encoded.Length();
      changes_.pop_front();
    }
  }

  // Whether all changes after `revision` are still kept.
  bool Has(int64_t revision) const {
    return revision <= revision_ && revision >= revision_ - static_cast<int64_t>(changes_.size());
  }

  // The first change after `revision`, or nullptr if there is none yet. Valid until Append.
  // Requires: Has(revision).
  const Change* After(int64_t revision) const {
    if (revision == revision_) return nullptr;
    return &changes_[changes_.size() - (revision_ - revision)];
  }

 private:
  const size_t max_changes_;
  const size_t max_bytes_;
  int64_t revision_;
  std::deque<Change> changes_;  // Their revisions are consecutive, up to revision_.
  size_t bytes_ = 0;            // Total size of the encoded changes.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_WATCH_LOG_H_
