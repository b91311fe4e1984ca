// Step records that were sent and may not have arrived: those sent after the newest report that the
// controller has answered. When the connection is lost they are lost with it, as far as is known,
// and are counted as such: some may have arrived.
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

  void Sent(int64_t records) { unconfirmed_ += records; }

  // The numbers of a session's reports grow.
  void ReportSent(int64_t number) {
    reports_.emplace_back(number, unconfirmed_);
    if (reports_.size() > kMaxUnanswered) reports_.pop_front();
  }

  // The controller has answered it, hence has all that was sent before it. Returns how many records
  // that confirms.
  int64_t Answered(int64_t number) {
    int64_t confirmed = 0;
    while (!reports_.empty() && reports_.front().first <= number) {
      confirmed = reports_.front().second;
      reports_.pop_front();
    }
    unconfirmed_ -= confirmed;
    for (auto& [later, records] : reports_) records -= confirmed;
    return confirmed;
  }

  // The connection is lost. Returns how many records with it; the next session begins anew.
  int64_t Lost() {
    reports_.clear();
    return std::exchange(unconfirmed_, 0);
  }

 private:
  std::deque<std::pair<int64_t, int64_t>> reports_;  // Unanswered: number, and records before it.
  int64_t unconfirmed_ = 0;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_SENT_RECORDS_H_
