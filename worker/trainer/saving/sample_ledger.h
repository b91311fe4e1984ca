// The ledger of samples of a job: which ones entered which step. Each trainer process has a file in
// the folder `samples` of the job's checkpoint directory, whose records are the runs of
// core/sample_use.h. A record has 128 bytes with a checksum, so that none crosses a sector of a
// disk, and rewriting the newest one in its place leaves the former or the new one. Of a mixture,
// the file begins with a record for each of its sources, which the runs in it are of.
//
// Training never waits for it. A thread writes the newest run in its place, as soon as it has
// grown; steps that are made while it writes are written together. A file that cannot be written is
// logged and tried again with the next step, and what is never written is missing, as the reader
// says. Records are not synced: the end of a process loses nothing that is written, the end of a
// node may lose the last seconds of its ranks.
#ifndef WORKER_TRAINER_SAVING_SAMPLE_LEDGER_H_
#define WORKER_TRAINER_SAVING_SAMPLE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/core/mixture.h"
#include "worker/trainer/core/sample_use.h"

namespace paceline {

inline constexpr size_t kRunBytes = 128;

std::string EncodeRun(const SampleRun& run);
// Nothing unless `record` is a whole record, undamaged and sound. `mixture`: that of its file;
// null: there is none, and a run of one is not sound.
std::optional<SampleRun> DecodeRun(absl::string_view record,
                                   const std::shared_ptr<const Mixture>& mixture = nullptr);

// A source of a mixture, which has `count` of them.
struct SourceRecord {
  int32_t number = 0;
  int32_t count = 1;
  Mixture::Source source;
};
std::string EncodeSource(const SourceRecord& record);
std::optional<SourceRecord> DecodeSource(absl::string_view record);

// Thread-safe.
class SampleLedger {
 public:
  // `job_directory`: <checkpoint.directory>/<job id>. The first run names the file, which must not
  // exist.
  explicit SampleLedger(const std::string& job_directory);
  // Writes what is left.
  ~SampleLedger();
  SampleLedger(const SampleLedger&) = delete;
  SampleLedger& operator=(const SampleLedger&) = delete;

  // Notes a step that is done, or, with no steps, that this rank begins to train in a generation.
  // Requires: the mixture of a run, if it has one, is that of the first.
  void Add(const SampleRun& run);

  // Waits until all is written. False: it cannot be written, or not in time.
  bool Flush(absl::Duration patience);

 private:
  using Records = std::map<int64_t, std::string>;  // By their number in the file.

  void Run();
  // Notes the sources of the run's mixture, if it has one, in front of all runs.
  void AddSources(const SampleRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Opens the file first, if it is not.
  absl::Status Write(const std::string& path, const Records& records);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return ending_ || has_news_; }
  bool IsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !has_news_ && !is_writing_; }

  const std::string directory_;
  int fd_ = -1;  // Of the thread.

  absl::Mutex mu_;
  std::string path_ ABSL_GUARDED_BY(mu_);  // Of the file; empty: none yet.
  SampleRun newest_ ABSL_GUARDED_BY(mu_);
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;      // Records; the newest run is count_ - 1.
  Records unwritten_ ABSL_GUARDED_BY(mu_);      // Those that changed since they were written.
  bool has_news_ ABSL_GUARDED_BY(mu_) = false;  // Since the last try to write.
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Last member, since it uses the others.
};

// What a ledger's files hold.
struct LedgerFiles {
  std::vector<SampleRun> runs;  // Of all ranks, in no order.
  int64_t damaged = 0;          // Records that are not whole, or changed.
};

// NotFound: the job has no ledger. ResourceExhausted: it is too large. Other codes: a file cannot
// be read. Errors name the path.
absl::StatusOr<LedgerFiles> ReadSampleLedger(const std::string& job_directory);

}  // namespace paceline

#endif  // WORKER_TRAINER_SAVING_SAMPLE_LEDGER_H_
