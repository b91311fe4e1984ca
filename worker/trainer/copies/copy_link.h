// Sends copies of states from one rank to another over a group of these two on the host:
//
//   sender:    header ──▶                            pieces, their checksums ──▶
//   receiver:             ◀── whether it has room                              ◀── whether all is
//   well
//
// Checksums are XXH3, as in checkpoints. What is sent and received is in host buffers.
//
// All functions block, and throw CollectiveError.
#ifndef WORKER_TRAINER_COPIES_COPY_LINK_H_
#define WORKER_TRAINER_COPIES_COPY_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/core/copy_keeper.h"

namespace paceline {

struct CopyLink {
  std::shared_ptr<Group> pair;
  int peer = 0;  // The other one's number in it.
};

// A rank's links in one generation.
struct CopyLinks {
  CopyLink to_buddy;
  CopyLink from_ward;
};

// Connects the ranks with their buddies and wards; all must call it. Null: there are none.
std::shared_ptr<const CopyLinks> ConnectCopies(const Groups& groups, int rank,
                                               const CopyOrders& orders);

// Trivially copyable.
struct CopyHeader {
  CopyLabel label;
  uint64_t bytes = 0;        // 0: this copy was given up, and nothing follows.
  CopyOrders orders;         // As the sender knows them.
  uint64_t piece_bytes = 0;  // Of each piece but the last; set by SendCopy.
};

// Returns whether the receiver has all of it. `limit`: bytes per second; 0: none. `pause` blocks
// for so long to keep to it, or less if it no longer matters.
bool SendCopy(const CopyLink& link, CopyHeader header, const char* image, double limit,
              const std::function<void(absl::Duration)>& pause);

// Receives what the other rank sends next, into the memory that `take` returns for it; null: there
// is no room. It is not called for a copy that was given up. If it has returned memory, `finish`
// learns whether all is there as it was sent, before the sender does.
void ReceiveCopy(const CopyLink& link, const std::function<char*(const CopyHeader&)>& take,
                 const std::function<void(bool whole)>& finish);

}  // namespace paceline

#endif  // WORKER_TRAINER_COPIES_COPY_LINK_H_
