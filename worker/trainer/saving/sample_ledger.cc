#include "worker/trainer/saving/sample_ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr char kFolder[] = "/samples";
constexpr char kEnding[] = ".runs";
// A run is a generation of one rank: neither is ever reached by a job that trains.
constexpr size_t kMostUnwritten = 4096;
constexpr size_t kMostFiles = 1000000;
constexpr size_t kMostBytes = size_t{1} << 26;  // Of a file.
// A record may change while it is read.
constexpr int kTriesToRead = 3;

absl::Status ErrorOf(absl::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

LedgerFiles RecordsIn(absl::string_view bytes) {
  LedgerFiles found;
  for (size_t at = 0; at < bytes.size(); at += kRunBytes) {
    const std::optional<SampleRun> run = DecodeRun(bytes.substr(at, kRunBytes));
    if (run.has_value()) {
      found.runs.push_back(*run);
    } else {
      ++found.damaged;
    }
  }
  return found;
}

}  // namespace

SampleLedger::SampleLedger(const std::string& job_directory)
    : directory_(job_directory + kFolder), thread_([this] { Run(); }) {}

SampleLedger::~SampleLedger() {
  {
    const absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  thread_.join();
  if (fd_ >= 0) close(fd_);
}

void SampleLedger::Add(const SampleRun& run) {
  const absl::MutexLock lock(&mu_);
  if (count_ == 0 || !Extend(&newest_, run)) {
    newest_ = run;
    ++count_;
  }
  unwritten_[count_ - 1] = newest_;
  if (unwritten_.size() > kMostUnwritten) unwritten_.erase(unwritten_.begin());
  has_news_ = true;
}

bool SampleLedger::Flush(absl::Duration patience) {
  const absl::MutexLock lock(&mu_);
  const bool in_time = mu_.AwaitWithTimeout(absl::Condition(this, &SampleLedger::IsIdle), patience);
  return in_time && unwritten_.empty();
}

void SampleLedger::Run() {
  bool failed = false;
  while (true) {
    Records records;
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &SampleLedger::HasWork));
      if (!has_news_) return;
      records = std::exchange(unwritten_, Records());
      has_news_ = false;
      is_writing_ = true;
    }
    const absl::Status status = Write(records);
    if (!status.ok() && !failed) {
      PACELINE_LOG(WARNING) << "the ledger of samples is incomplete for now: " << status.message();
    }
    failed = !status.ok();
    const absl::MutexLock lock(&mu_);
    is_writing_ = false;
    if (failed) unwritten_.merge(records);  // Newer states of a record stay.
  }
}

absl::Status SampleLedger::Write(const Records& records) {
  if (path_.empty()) {
    const SampleRun& first = records.begin()->second;
    path_ =
        absl::StrCat(directory_, "/generation-", first.generation, ".rank-", first.rank, kEnding);
  }
  if (fd_ < 0) {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (error) return ErrorOf("create", directory_, error.value());
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) return ErrorOf("create", path_, errno);
  }
  for (const auto& [number, run] : records) {
    const std::string bytes = EncodeRun(run);
    const ssize_t written =
        pwrite(fd_, bytes.data(), kRunBytes, number * static_cast<off_t>(kRunBytes));
    if (written < 0) return ErrorOf("write", path_, errno);
    if (written < static_cast<ssize_t>(kRunBytes)) return ErrorOf("write", path_, ENOSPC);
  }
  return absl::OkStatus();
}

absl::StatusOr<LedgerFiles> ReadSampleLedger(const std::string& job_directory) {
  const std::string directory = job_directory + kFolder;
  PACELINE_ASSIGN_OR_RETURN(const ForeignDir folder, ForeignDir::Open(directory));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder.Names(kMostFiles));
  LedgerFiles files;
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, kEnding)) continue;
    PACELINE_ASSIGN_OR_RETURN(const ForeignFile file, folder.OpenFile(name));
    LedgerFiles found;
    for (int tries = 0; tries < kTriesToRead; ++tries) {
      PACELINE_ASSIGN_OR_RETURN(const std::string bytes, file.ReadAll(kMostBytes));
      found = RecordsIn(bytes);
      if (found.damaged == 0) break;
    }
    files.runs.insert(files.runs.end(), found.runs.begin(), found.runs.end());
    files.damaged += found.damaged;
  }
  return files;
}

}  // namespace paceline
