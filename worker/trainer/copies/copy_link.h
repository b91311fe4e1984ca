// Sends copies of states from one rank to another over a group of these two on the host:
//
//   sender:    header ──▶                            pieces, their checksums ──▶
//   receiver:             ◀── whether it has room                              ◀── whether all is
//   well
//
// Checksums are XXH3, as in checkpoints. What is sent and received is in host buffers.
//
// A connection that has broken is made anew within the generation, for the sender's next copy. The
// two find each other by words in the generation's store, so that nobody tries to connect to a rank
// that does not come:
//
//   sender:    offers connection number n ──▶                        both connect; or the sender
//   receiver:                                ◀── takes the newest    withdraws its offer
//
// Functions that send and receive block, and throw CollectiveError.
#ifndef WORKER_TRAINER_COPIES_COPY_LINK_H_
#define WORKER_TRAINER_COPIES_COPY_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/core/copy_keeper.h"

namespace paceline {

// One end of the connection between two ranks of a generation. Thread-safe, but one thread at a
// time sends, receives or makes the connection anew.
class CopyLink {
 public:
  // Connects with `other`; `sender`: which of the two sends. Blocks and throws as Groups::Make.
  CopyLink(const Groups& groups, int rank, int other, int sender);

  // Null: the connection has broken.
  std::shared_ptr<Group> pair() const;
  // The other one's number in it.
  int peer() const { return peer_; }

  // Ends what is under way: it throws.
  void Abort();
  // Closes a connection that has broken, so that the other end learns it.
  void Close();
  // Makes it anew. False: the other one has not come before `is_over`, which is polled. Throws
  // CollectiveError, as when the generation is over.
  bool Reconnect(const std::function<bool()>& is_over);

 private:
  struct Ends;

  const std::shared_ptr<Ends> ends_;  // Shared with attempts that were given up.
  const int peer_;

  mutable absl::Mutex mu_;
  std::shared_ptr<Group> pair_ ABSL_GUARDED_BY(mu_);
};

// A rank's links in one generation.
struct CopyLinks {
  std::shared_ptr<CopyLink> to_buddy;
  std::shared_ptr<CopyLink> from_ward;
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
bool SendCopy(const CopyLink& to, CopyHeader header, const char* image, double limit,
              const std::function<void(absl::Duration)>& pause);

// Receives the header of what the other rank sends next.
CopyHeader ReceiveHeader(const CopyLink& from);

// Receives what follows such a header, into the memory that `take` returns for it; null: there is
// no room. If it has returned memory, `finish` learns whether all is there as it was sent, before
// the sender does. Does nothing for a copy that was given up.
void ReceiveCopy(const CopyLink& from, const CopyHeader& header,
                 const std::function<char*(const CopyHeader&)>& take,
                 const std::function<void(bool whole)>& finish);

}  // namespace paceline

#endif  // WORKER_TRAINER_COPIES_COPY_LINK_H_
