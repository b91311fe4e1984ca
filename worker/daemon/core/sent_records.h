// What was sent of step records and may not have arrived: the records themselves, and the total of
// those that were dropped (proto/worker.proto, NodeSteps). What was sent before a report that the
// controller has answered has arrived. When the connection is lost, the records sent since are lost
// with it, as far as is known: some may have arrived. The total is told again.
//
//   Sent, Sent, ReportSent(1), Sent, Answered(1): the last one is not confirmed
//
// Thread-compatible.
#ifndef WORKER_DAEMON_CORE_SENT_RECORDS_H_
#define WORKER_DAEMON_CORE_SENT_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace paceline {

class SentRecords {
 public:
  static constexpr size_t kMaxUnanswered = 256;  // Reports; an older one confirms nothing any more.

  // A message with so many records, and with the total of dropped ones.
  void Sent(int64_t records, int64_t dropped) {
    sent_.records += records;
    sent_.dropped = dropped;
  }

  // The numbers of a session's reports grow.
  void ReportSent(int64_t number) {
    reports_.emplace_back(number, sent_);
    if (reports_.size() > kMaxUnanswered) reports_.pop_front();
  }

  // The controller has answered it, hence has all that was sent before it. Returns how many records
  // that confirms.
  int64_t Answered(int64_t number) {
    const int64_t before = confirmed_.records;
    for (; !reports_.empty() && reports_.front().first <= number; reports_.pop_front()) {
      confirmed_ = reports_.front().second;
    }
    return confirmed_.records - before;
  }

  // The connection is lost. Returns how many records are lost with it; the next session begins
  // anew.
  int64_t Lost() {
    const int64_t lost = sent_.records - confirmed_.records;
    reports_.clear();
    sent_ = confirmed_;
    return lost;
  }

  // The total of dropped ones that was told last, unless it is lost with a connection; and the one
  // that is confirmed.
  int64_t dropped_told() const { return sent_.dropped; }
  int64_t dropped_confirmed() const { return confirmed_.dropped; }

 private:
  struct Totals {
    int64_t records = 0;  // Without those that are lost.
    int64_t dropped = 0;
  };

  Totals sent_;
  Totals confirmed_;
  // Unanswered: number, and what was sent before it.
  std::deque<std::pair<int64_t, Totals>> reports_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_SENT_RECORDS_H_
