// Sums over processes of one node by way of memory that they share.
//
//   each copies its values into a slot of its own ─▶ the last one to arrive lets all who are awake
//   add up the slots, block by block ─▶ [the first one adds other nodes' sums] ─▶ each copies the
//   result
//
// A process sleeps once, where a ring over sockets makes it wait for as many as twice the members.
// Each value is added up in the order of the places, by whomever, so that all get the same bits.
// Vectors larger than a slot are summed slot by slot.
//
// Who waits looks around every 50 ms: a member that is gone, or has let go of it, fails all others
// (as a closed connection does), as do Close and the timeout.
//
// One thread, but for Close and SetTimeout: any thread. Failures throw std::runtime_error; it is
// unusable from then on, for all.
#ifndef WORKER_TRAINER_COMM_SHARED_SUM_H_
#define WORKER_TRAINER_COMM_SHARED_SUM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/trainer/comm/shared_memory.h"

namespace paceline {

class SharedSum {
 public:
  // Of the memory. What few members and short vectors do not need is never touched.
  static constexpr size_t kBytes = 33 << 20;

  // `ranks`: of the members, by place, for messages. The member has taken its place in `memory`,
  // and the others have before they sum.
  SharedSum(SharedMemory memory, int place, std::vector<int> ranks);
  // The others fail if they sum again.
  ~SharedSum();
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;

  // The members' sum, of each part of the values in turn, is passed to the first member's
  // `over_nodes`, which may replace it; all must have one, or none.
  template <typename T>
  using OverNodes = std::function<void(T* sums, size_t count)>;

  // Replaces `values` by their sum over the members. T: float, double.
  template <typename T>
  void Sum(T* values, size_t count, const OverNodes<T>& over_nodes);

  void SetTimeout(absl::Duration timeout) { timeout_ms_ = absl::ToInt64Milliseconds(timeout); }

  // Fails what is under way and what comes after, on all members.
  void Close();

 private:
  struct Control;
  struct Member;
  using Word = std::atomic<uint32_t>;

  Control& control() const;
  Member& member(size_t place) const;
  template <typename T>
  T* Slot(size_t slot) const;
  template <typename T>
  void SumPart(T* values, size_t count, const OverNodes<T>& over_nodes);
  template <typename T>
  bool AddBlocks(size_t count);
  void Publish(uint32_t number);
  // Until the word has come to `value`.
  void Wait(Word& word, uint32_t value);
  // What is wrong; empty: nothing.
  std::string ClosedBy() const;
  std::string MissingMember(bool is_late) const;

  const SharedMemory memory_;
  const size_t place_;
  const std::vector<int> ranks_;
  std::atomic<int64_t> timeout_ms_{0};
  uint32_t sums_ = 0;  // That were begun.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_SHARED_SUM_H_
