// Tracks step records that were sent and may not have arrived, and the total of dropped records
// that was reported (proto/worker.proto, NodeSteps). Everything sent before a report has arrived
// once the controller answers the report. When the connection is lost, records sent since then
// count as lost, though some may have arrived. The total is then reported again.
//
//   Sent, Sent, ReportSent(1), Sent, Answered(1): the last Sent is not confirmed
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
  static constexpr size_t kMaxUnanswered = 256;  // Reports; older ones confirm nothing.

  // A message was sent with `records` records and with `dropped`, the total of dropped ones.
  void Sent(int64_t records, int64_t dropped) {
    sent_.records += records;
    sent_.dropped = dropped;
  }

  // Report `number` was sent. Numbers grow within a session.
  void ReportSent(int64_t number) {
    reports_.emplace_back(number, sent_);
    if (reports_.size() > kMaxUnanswered) reports_.pop_front();
  }

  // The controller has answered report `number`, so it has all that was sent before. Returns how
  // many records this confirms.
  int64_t Answered(int64_t number) {
    const int64_t before = confirmed_.records;
    for (; !reports_.empty() && reports_.front().first <= number; reports_.pop_front()) {
      confirmed_ = reports_.front().second;
    }
    return confirmed_.records - before;
  }

  // The connection is lost. Returns how many records are lost with it. The next session starts
  // afresh.
  int64_t Lost() {
    const int64_t lost = sent_.records - confirmed_.records;
    reports_.clear();
    sent_ = confirmed_;
    return lost;
  }

  // The total of dropped records that was sent last on a connection that is not lost, and the total
  // that the controller has confirmed.
  int64_t dropped_reported() const { return sent_.dropped; }
  int64_t dropped_confirmed() const { return confirmed_.dropped; }

 private:
  struct Totals {
    int64_t records = 0;  // Excludes lost records.
    int64_t dropped = 0;
  };

  Totals sent_;
  Totals confirmed_;
  // Unanswered reports: the number, and the totals sent before it.
  std::deque<std::pair<int64_t, Totals>> reports_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_SENT_RECORDS_H_
