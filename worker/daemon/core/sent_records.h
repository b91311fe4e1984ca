// Step records that were sent and may not have arrived: those sent after the newest report that the
// controller has answered. When the connection is lost they are lost with it, as far as is known,
// and are counted as such: some may have arrived. So is what was told of records that had been
// dropped before.
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

struct RecordCount {
  int64_t records = 0;
  int64_t dropped = 0;  // Told as dropped.

  int64_t sum() const { return records + dropped; }
  RecordCount& operator+=(const RecordCount& other) {
    records += other.records;
    dropped += other.dropped;
    return *this;
  }
  RecordCount& operator-=(const RecordCount& other) {
    records -= other.records;
    dropped -= other.dropped;
    return *this;
  }
};

class SentRecords {
 public:
  static constexpr size_t kMaxUnanswered = 256;  // Reports; an older one confirms nothing any more.

  void Sent(const RecordCount& sent) { unconfirmed_ += sent; }

  // The numbers of a session's reports grow.
  void ReportSent(int64_t number) {
    reports_.emplace_back(number, unconfirmed_);
    if (reports_.size() > kMaxUnanswered) reports_.pop_front();
  }

  // The controller has answered it, hence has all that was sent before it. Returns what that
  // confirms.
  RecordCount Answered(int64_t number) {
    RecordCount confirmed;
    while (!reports_.empty() && reports_.front().first <= number) {
      confirmed = reports_.front().second;
      reports_.pop_front();
    }
    unconfirmed_ -= confirmed;
    for (auto& [later, sent] : reports_) sent -= confirmed;
    return confirmed;
  }

  // The connection is lost. Returns what is lost with it; the next session begins anew.
  RecordCount Lost() {
    reports_.clear();
    return std::exchange(unconfirmed_, {});
  }

 private:
  // Unanswered: number, and what was sent before it.
  std::deque<std::pair<int64_t, RecordCount>> reports_;
  RecordCount unconfirmed_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_SENT_RECORDS_H_
