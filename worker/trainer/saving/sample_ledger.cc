#include "worker/trainer/saving/sample_ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/checksum.h"
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

constexpr uint64_t kFormat = 0x31304e5552534c50;          // "PLSRUN01"
constexpr uint64_t kMixtureFormat = 0x32304e5552534c50;   // "PLSRUN02": of the file's mixture.
constexpr uint64_t kToTheEndFormat = 0x33304e5552534c50;  // "PLSRUN03": drop_last is false.
constexpr uint64_t kSourceFormat = 0x3130435253534c50;    // "PLSSRC01"
constexpr size_t kWords = kRunBytes / sizeof(uint64_t);

// A record's words: the checksum of the others, then these in their order.
using Words = std::array<uint64_t, kWords>;

uint64_t Two(int32_t low, int32_t high) {
  return static_cast<uint64_t>(static_cast<uint32_t>(low)) |
         static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32u;
}
int32_t Low(uint64_t word) { return static_cast<int32_t>(static_cast<uint32_t>(word)); }
int32_t High(uint64_t word) { return static_cast<int32_t>(static_cast<uint32_t>(word >> 32u)); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }
int64_t Value(uint64_t word) { return static_cast<int64_t>(word); }

uint64_t ChecksumOfWords(const Words& words) {
  std::array<char, kRunBytes> bytes{};
  std::memcpy(bytes.data(), words.data(), kRunBytes);
  return ChecksumOf(absl::string_view(bytes.data(), kRunBytes).substr(sizeof(uint64_t)));
}

// A mixture has no end.
bool IsPosition(const DataPosition& position, const SampleRun& run) {
  const bool endless = run.samples == 0 || run.mixture != nullptr;
  return position.epoch >= 0 && position.offset >= 0 && (endless || position.offset <= run.samples);
}

bool IsSound(const SampleRun& run) {
  const int64_t together = int64_t{run.batch} * run.world_size;
  return run.generation >= 0 && run.parent >= 0 && run.since >= 0 && run.world_size >= 1 &&
         run.batch >= 1 && run.passes >= 1 && run.rank >= 0 && run.rank < run.world_size &&
         run.with_first >= 0 && run.with_size >= 1 &&
         run.with_first <= run.world_size - run.with_size && run.first_step >= 0 &&
         run.steps >= 0 &&
         (run.samples == 0 || run.mixture != nullptr || run.samples >= together) &&
         IsPosition(run.begin, run) && IsPosition(run.end, run) &&
         (run.mixture == nullptr || run.samples == run.mixture->samples());
}

// A mixture has no end of an epoch.
uint64_t FormatOf(const SampleRun& run) {
  if (run.mixture != nullptr) return kMixtureFormat;
  return run.drop_last ? kFormat : kToTheEndFormat;
}

absl::Status ErrorOf(absl::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

// The record's words; nothing unless it is whole and undamaged.
std::optional<Words> WordsOf(absl::string_view record) {
  if (record.size() != kRunBytes) return std::nullopt;
  Words words{};
  std::memcpy(words.data(), record.data(), kRunBytes);
  if (words[0] != ChecksumOfWords(words)) return std::nullopt;
  return words;
}

std::string RecordOf(Words words) {
  words[0] = ChecksumOfWords(words);
  std::string record(kRunBytes, '\0');
  std::memcpy(&record[0], words.data(), kRunBytes);
  return record;
}

// The mixture whose sources the first records are; null: there is none, or it is not whole.
std::shared_ptr<const Mixture> MixtureIn(absl::string_view bytes) {
  std::vector<Mixture::Source> sources;
  while (true) {
    const size_t at = sources.size() * kRunBytes;
    const std::optional<SourceRecord> record =
        at < bytes.size() ? DecodeSource(bytes.substr(at, kRunBytes)) : std::nullopt;
    if (!record.has_value() || record->number != static_cast<int32_t>(sources.size())) {
      return nullptr;
    }
    sources.push_back(record->source);
    if (record->number + 1 == record->count) return std::make_shared<const Mixture>(sources);
  }
}

LedgerFiles RecordsIn(absl::string_view bytes) {
  LedgerFiles found;
  const std::shared_ptr<const Mixture> mixture = MixtureIn(bytes);
  const size_t sources = mixture == nullptr ? 0 : mixture->sources().size();
  for (size_t at = sources * kRunBytes; at < bytes.size(); at += kRunBytes) {
    const std::optional<SampleRun> run = DecodeRun(bytes.substr(at, kRunBytes), mixture);
    if (run.has_value()) {
      found.runs.push_back(*run);
    } else {
      ++found.damaged;
    }
  }
  return found;
}

}  // namespace

std::string EncodeRun(const SampleRun& run) {
  const Words words = {0,
                       FormatOf(run),
                       Bits(run.generation),
                       Bits(run.since),
                       Two(run.rank, run.world_size),
                       Two(run.batch, run.passes),
                       Two(run.with_first, run.with_size),
                       Bits(run.first_step),
                       Bits(run.steps),
                       Bits(run.begin.epoch),
                       Bits(run.begin.offset),
                       Bits(run.end.epoch),
                       Bits(run.end.offset),
                       Bits(run.samples),
                       run.seed,
                       (Bits(run.parent) << 1u) | (run.shuffle ? 1u : 0u)};
  return RecordOf(words);
}

std::optional<SampleRun> DecodeRun(absl::string_view record,
                                   const std::shared_ptr<const Mixture>& mixture) {
  const std::optional<Words> found = WordsOf(record);
  if (!found.has_value()) return std::nullopt;
  const Words& words = *found;
  const bool mixed = words[1] == kMixtureFormat;
  const bool to_the_end = words[1] == kToTheEndFormat;
  if (words[1] != kFormat && !to_the_end && !(mixed && mixture != nullptr)) return std::nullopt;
  SampleRun run;
  run.drop_last = !to_the_end;
  if (mixed) run.mixture = mixture;
  run.generation = Value(words[2]);
  run.since = Value(words[3]);
  run.rank = Low(words[4]);
  run.world_size = High(words[4]);
  run.batch = Low(words[5]);
  run.passes = High(words[5]);
  run.with_first = Low(words[6]);
  run.with_size = High(words[6]);
  run.first_step = Value(words[7]);
  run.steps = Value(words[8]);
  run.begin = {Value(words[9]), Value(words[10])};
  run.end = {Value(words[11]), Value(words[12])};
  run.samples = Value(words[13]);
  run.seed = words[14];
  run.shuffle = (words[15] & 1u) != 0;
  run.parent = Value(words[15] >> 1u);
  if (!IsSound(run)) return std::nullopt;
  return run;
}

std::string EncodeSource(const SourceRecord& record) {
  uint64_t weight = 0;
  std::memcpy(&weight, &record.source.weight, sizeof(weight));
  Words words{};
  words[1] = kSourceFormat;
  words[2] = Two(record.number, record.count);
  words[3] = Bits(record.source.samples);
  words[4] = weight;
  return RecordOf(words);
}

std::optional<SourceRecord> DecodeSource(absl::string_view record) {
  const std::optional<Words> words = WordsOf(record);
  if (!words.has_value() || (*words)[1] != kSourceFormat) return std::nullopt;
  SourceRecord decoded;
  decoded.number = Low((*words)[2]);
  decoded.count = High((*words)[2]);
  decoded.source.samples = Value((*words)[3]);
  std::memcpy(&decoded.source.weight, &(*words)[4], sizeof(double));
  const Mixture::Source& source = decoded.source;
  const bool sound = decoded.count >= 1 && decoded.count <= Mixture::kMostSources &&
                     decoded.number >= 0 && decoded.number < decoded.count && source.samples >= 1 &&
                     std::isfinite(source.weight) && source.weight > 0;
  if (!sound) return std::nullopt;
  return decoded;
}

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
  const bool first = path_.empty();
  if (first) {
    path_ = absl::StrCat(directory_, "/generation-", run.generation, ".rank-", run.rank, kEnding);
    AddSources(run);
  }
  if (first || !Extend(&newest_, run)) {
    newest_ = run;
    ++count_;
  }
  unwritten_[count_ - 1] = EncodeRun(newest_);
  if (unwritten_.size() > kMostUnwritten) unwritten_.erase(unwritten_.begin());
  has_news_ = true;
}

void SampleLedger::AddSources(const SampleRun& run) {
  if (run.mixture == nullptr) return;
  const std::vector<Mixture::Source>& sources = run.mixture->sources();
  SourceRecord record;
  record.count = static_cast<int32_t>(sources.size());
  for (const Mixture::Source& source : sources) {
    record.source = source;
    unwritten_[count_++] = EncodeSource(record);
    ++record.number;
  }
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
    std::string path;
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &SampleLedger::HasWork));
      if (!has_news_) return;
      records = std::exchange(unwritten_, Records());
      path = path_;
      has_news_ = false;
      is_writing_ = true;
    }
    const absl::Status status = Write(path, records);
    if (!status.ok() && !failed) {
      PACELINE_LOG(WARNING)
          << "the ledger of samples cannot be written, and is tried again with the next step: "
          << status.message();
    }
    failed = !status.ok();
    const absl::MutexLock lock(&mu_);
    is_writing_ = false;
    if (failed) unwritten_.merge(records);  // Newer states of a record stay.
  }
}

absl::Status SampleLedger::Write(const std::string& path, const Records& records) {
  if (fd_ < 0) {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (error) return ErrorOf("create", directory_, error.value());
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) return ErrorOf("create", path, errno);
  }
  for (const auto& [number, bytes] : records) {
    const ssize_t written =
        pwrite(fd_, bytes.data(), kRunBytes, number * static_cast<off_t>(kRunBytes));
    if (written < 0) return ErrorOf("write", path, errno);
    if (written < static_cast<ssize_t>(kRunBytes)) return ErrorOf("write", path, ENOSPC);
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
    LedgerFiles found;
    for (int tries = 0; tries < kTriesToRead; ++tries) {
      PACELINE_ASSIGN_OR_RETURN(const ForeignFile file, folder.OpenFile(name));
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
