#include "worker/trainer/object_store/object_file.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/backoff.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "common/tls/key_and_request.h"
#include "worker/trainer/object_store/core/store_answer.h"
#include "worker/trainer/object_store/object_request.h"

namespace paceline {
namespace {

constexpr size_t kFirstBytes = 64;   // As many as a header has.
constexpr size_t kRecentBlocks = 4;  // Kept in memory where there is no cache.
constexpr size_t kIdDigits = 32;
constexpr double kMib = 1 << 20;
// Another process of the node that fetches a block may be stopped.
constexpr absl::Duration kTurnPatience = absl::Seconds(20);
constexpr absl::Duration kLongestRetryAfter = absl::Seconds(30);
constexpr absl::Duration kStopPoll = absl::Milliseconds(100);

}  // namespace

ObjectFile::ObjectFile(std::shared_ptr<ObjectStore> store, std::string name, ObjectUrl url)
    : store_(std::move(store)), name_(std::move(name)), url_(std::move(url)) {}

ObjectFile::~ObjectFile() {
  stopping_ = true;
  store_->pool().Remove(this);
}

absl::Status ObjectFile::Open() {
  std::string first(kFirstBytes, '\0');
  StoreAnswer answer;
  PACELINE_RETURN_IF_ERROR(Request(0, nullptr, absl::MakeSpan(&first[0], first.size()), &answer));
  version_.size = SizeOfObject(answer.content_range).value_or(0);
  version_.etag = answer.etag;
  version_.last_modified = answer.last_modified;
  PACELINE_ASSIGN_OR_RETURN(const ObjectRequest request,
                            MakeRequest(name_, url_, 0, nullptr, store_->options().variables));
  const size_t block_bytes = store_->options().block_bytes;
  // The address at which it was found: another endpoint may have another object of this name.
  id_ = Sha256Hex(absl::StrCat(request.http.url, "\n", version_.etag, "\n", version_.last_modified,
                               "\n", version_.size, "\n", block_bytes))
            .substr(0, kIdDigits);
  keeps_ = store_->cache() != nullptr;
  const absl::MutexLock lock(&mutex_);
  cached_.resize((version_.size + block_bytes - 1) / block_bytes);
  return absl::OkStatus();
}

size_t ObjectFile::SizeOf(int64_t block) const {
  const uint64_t block_bytes = store_->options().block_bytes;
  const uint64_t begin = static_cast<uint64_t>(block) * block_bytes;
  return static_cast<size_t>(std::min(block_bytes, version_.size - begin));
}

absl::Status ObjectFile::Read(uint64_t offset, size_t bytes, char* out) const {
  const size_t block_bytes = store_->options().block_bytes;
  while (bytes > 0) {
    const auto block = static_cast<int64_t>(offset / block_bytes);
    const auto begin = static_cast<size_t>(offset % block_bytes);
    const size_t part = std::min(bytes, SizeOf(block) - begin);
    PACELINE_RETURN_IF_ERROR(ReadFromBlock(block, begin, absl::MakeSpan(out, part)));
    offset += part;
    out += part;
    bytes -= part;
  }
  return absl::OkStatus();
}

absl::Status ObjectFile::ReadFromBlock(int64_t block, size_t begin, absl::Span<char> out) const {
  Bytes bytes;
  {
    const absl::MutexLock lock(&mutex_);
    bytes = FindRecent(block);
  }
  BlockCache* const cache = store_->cache();
  if (bytes == nullptr && cache != nullptr) {
    if (cache->Read(NameOf(block), SizeOf(block), begin, out)) {
      store_->counters().AddCached();
      return absl::OkStatus();
    }
    const absl::MutexLock lock(&mutex_);
    cached_[static_cast<size_t>(block)] = false;
  }
  if (bytes == nullptr) {
    const absl::Time asked = absl::Now();
    PACELINE_ASSIGN_OR_RETURN(bytes, Obtain(block));
    store_->counters().AddWaited(absl::Now() - asked);
  } else {
    store_->counters().AddCached();
  }
  std::memcpy(out.data(), bytes->data() + begin, out.size());
  return absl::OkStatus();
}

ObjectFile::Bytes ObjectFile::FindRecent(int64_t block) const {
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [block](const auto& one) { return one.first == block; });
  return found == recent_.end() ? nullptr : found->second;
}

absl::StatusOr<ObjectFile::Bytes> ObjectFile::Obtain(int64_t block) const {
  std::shared_ptr<Fetching> fetching;
  while (true) {
    const absl::MutexLock lock(&mutex_);
    if (Bytes recent = FindRecent(block); recent != nullptr) return recent;
    const auto [entry, is_mine] = fetching_.try_emplace(block);
    if (is_mine) {
      fetching = entry->second = std::make_shared<Fetching>();
      break;
    }
    const std::shared_ptr<const Fetching> others = entry->second;
    while (!others->is_done) arrived_.Wait(&mutex_);
    if (others->status.ok()) return others->bytes;
    // An interrupt that the other one has seen may have passed.
    if (!absl::IsCancelled(others->status) || IsOver()) return others->status;
  }
  absl::StatusOr<Bytes> bytes = FetchWithinMemory(block);
  const absl::MutexLock lock(&mutex_);
  fetching->is_done = true;
  fetching->status = bytes.status();
  if (bytes.ok()) fetching->bytes = *bytes;
  fetching_.erase(block);
  arrived_.SignalAll();
  return bytes;
}

absl::StatusOr<ObjectFile::Bytes> ObjectFile::FetchWithinMemory(int64_t block) const {
  try {
    return Fetch(block);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name_, ": out of memory while a block of ", SizeOf(block),
                     " bytes is fetched; give the trainer more, or prefetch fewer batches "
                     "(data.prefetch_batches)"));
  }
}

absl::StatusOr<ObjectFile::Bytes> ObjectFile::Fetch(int64_t block) const {
  auto bytes = std::make_shared<std::string>(SizeOf(block), '\0');
  const absl::Span<char> out = absl::MakeSpan(&(*bytes)[0], bytes->size());
  BlockCache* const cache = store_->cache();
  std::optional<BlockCache::Turn> turn;
  if (cache != nullptr) {
    turn.emplace(cache->WaitTurn(NameOf(block), kTurnPatience, [this] { return IsOver(); }));
    if (cache->Read(NameOf(block), bytes->size(), 0, out)) {
      const absl::MutexLock lock(&mutex_);
      cached_[static_cast<size_t>(block)] = true;
      return bytes;
    }
  }
  StoreAnswer answer;
  const uint64_t first = static_cast<uint64_t>(block) * store_->options().block_bytes;
  const absl::Status status = Request(first, &version_, out, &answer);
  // What was right when the object was opened has been changed on the node since.
  if (absl::IsFailedPrecondition(status)) return absl::PermissionDeniedError(status.message());
  PACELINE_RETURN_IF_ERROR(status);
  Keep(block, bytes);
  return bytes;
}

void ObjectFile::Keep(int64_t block, const Bytes& bytes) const {
  absl::Status kept = absl::UnavailableError("there is no cache");
  if (BlockCache* const cache = store_->cache(); cache != nullptr) {
    kept = cache->Keep(NameOf(block), *bytes);
    if (!kept.ok() && !has_warned_.exchange(true)) {
      PACELINE_LOG(WARNING) << "object_not_cached object=" << name_ << " reason=\""
                            << kept.message()
                            << "\", its blocks are fetched each time that they are needed; free "
                               "room, or give the worker another --object-cache";
    }
  }
  keeps_ = kept.ok();
  const absl::MutexLock lock(&mutex_);
  if (kept.ok()) {
    cached_[static_cast<size_t>(block)] = true;
    return;
  }
  recent_.emplace_back(block, bytes);
  if (recent_.size() > kRecentBlocks) recent_.pop_front();
}

bool ObjectFile::Expect(uint64_t offset, size_t bytes) const {
  if (bytes == 0 || !keeps_) return true;  // In memory there is no room for what comes later.
  const size_t block_bytes = store_->options().block_bytes;
  const auto last = static_cast<int64_t>((offset + bytes - 1) / block_bytes);
  const absl::MutexLock lock(&mutex_);
  for (auto block = static_cast<int64_t>(offset / block_bytes); block <= last; ++block) {
    if (cached_[static_cast<size_t>(block)] || expected_.count(block) > 0) continue;
    if (!store_->pool().Add(this, [this, block] { Prefetch(block); })) return false;
    expected_.insert(block);
  }
  return true;
}

void ObjectFile::Prefetch(int64_t block) const {
  // An error comes up again, and is told, when the block is read.
  const bool there =
      store_->cache()->Read(NameOf(block), SizeOf(block), 0, {}) || Obtain(block).ok();
  const absl::MutexLock lock(&mutex_);
  cached_[static_cast<size_t>(block)] = there && keeps_;
  expected_.erase(block);
}

bool ObjectFile::IsOver() const {
  const ReadInterrupt* const interrupt = store_->options().interrupt.get();
  return stopping_ || (interrupt != nullptr && interrupt->is_set());
}

absl::Status ObjectFile::Cancelled() const {
  return absl::CancelledError(absl::StrCat(name_, ": cut off while it is read"));
}

void ObjectFile::Wait(absl::Duration delay) const {
  for (absl::Duration left = delay; left > absl::ZeroDuration() && !IsOver(); left -= kStopPoll) {
    absl::SleepFor(std::min(kStopPoll, left));
  }
}

absl::Status ObjectFile::Request(uint64_t first, const ObjectVersion* version, absl::Span<char> out,
                                 StoreAnswer* answer) const {
  using Verdict = Judgement::Verdict;
  const ObjectStore::Options& options = store_->options();
  const auto make = [&] { return MakeRequest(name_, url_, first, version, options.variables); };
  const absl::Duration limit =
      options.try_limit + options.try_limit_per_mib * (static_cast<double>(out.size()) / kMib);
  Backoff backoff(options.backoff, options.seed ^ first);
  const auto began = std::chrono::steady_clock::now();
  for (int tries = 1;; ++tries) {
    if (IsOver()) return Cancelled();
    if (tries > 1) store_->counters().AddRetry();
    *answer = StoreAnswer();
    Judgement judgement;
    const absl::StatusOr<ObjectRequest> request = make();
    if (request.ok()) {
      *answer = store_->http().Get(request->http, out, limit, [this] { return IsOver(); });
      judgement = JudgeAnswer(request->store, *answer, first, out.size(), version, absl::Now());
    } else {
      judgement = {Verdict::kRetryWithCredentials, request.status()};
    }
    if (judgement.verdict == Verdict::kGood) {
      store_->counters().AddFetched(answer->received);
      return absl::OkStatus();
    }
    if (IsOver()) return Cancelled();
    if (judgement.verdict == Verdict::kFail) return judgement.status;
    const bool refused = judgement.verdict == Verdict::kRetryWithCredentials;
    // Once the object is open, they have run out or are just being renewed, which may pass.
    if (refused && version == nullptr) {
      PACELINE_ASSIGN_OR_RETURN(const ObjectRequest renewed, make());
      if (request.ok() && IsSameRequest(renewed.http, request->http)) return judgement.status;
    }
    const absl::Duration asked =
        absl::Seconds(std::max(answer->retry_after_s.value_or(0), int64_t{0}));
    // Not all who were told the same return at the same moment.
    const absl::Duration delay = std::min(asked, kLongestRetryAfter) + backoff.Next();
    const absl::Duration gone = absl::FromChrono(std::chrono::steady_clock::now() - began);
    if (gone + delay > options.patience) {
      if (refused) return judgement.status;
      return absl::DeadlineExceededError(absl::StrCat(
          judgement.status.message(), "; ", tries, " tries within ",
          absl::FormatDuration(options.patience),
          " have failed: look at the network between this node and the store, and at the store"));
    }
    if (tries == 1) {
      PACELINE_LOG(WARNING) << "object_read_again reason=\"" << judgement.status.message() << "\"";
    }
    Wait(delay);
  }
}

}  // namespace paceline
