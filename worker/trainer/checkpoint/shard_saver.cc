#include "worker/trainer/checkpoint/shard_saver.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/shim/allowed_roots.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/checkpoint/host_buffer.h"
#include "worker/trainer/checkpoint/part_files.h"
#include "worker/trainer/checkpoint/shard_writer.h"
#include "worker/trainer/checkpoint/task_thread.h"

namespace paceline {
namespace {

// No model's header is larger.
constexpr size_t kHeaderBytes = 4 << 20;

// Pieces to copy to a shard's memory, in the order of their places there.
struct Staging {
  std::vector<HostCopyPiece> pieces;
  std::shared_ptr<HostCopy> copy;  // Shared by the training and writer threads.

  // Waits until all pieces before address `limit` are copied.
  void Wait(const char* limit) const {
    size_t bytes = 0;
    for (const HostCopyPiece& piece : pieces) {
      if (piece.to >= limit) break;
      bytes += std::min(piece.bytes, static_cast<size_t>(limit - piece.to));
    }
    copy->Wait(bytes);
  }
};

// A shard on its way from the device through memory to the disk.
struct Save {
  std::string directory;
  int above = 0;  // Number of missing directories above it to create.
  int rank = 0;
  Manifest part;
  ShardLayout layout;
  std::vector<at::Tensor> sources;  // Kept until they are copied.
  absl::string_view image;          // The file's contents, once copied.
  Staging at_once;
  Staging rest;
  absl::Time begun;
  absl::Time staged;

  // Waits until the image's first `end` bytes are copied.
  void Wait(size_t end) const {
    at_once.Wait(image.data() + end);
    rest.Wait(image.data() + end);
  }
};

// Waits until all is copied, then computes checksums. FailedPrecondition: an entry has a NaN.
absl::Status TakeChecksums(Save& save, bool save_nan) {
  save.Wait(save.image.size());
  save.staged = absl::Now();
  save.sources.clear();
  for (ManifestTensor& tensor : save.layout.tensors) {
    TensorSlice& slice = tensor.slices.front();
    const absl::string_view bytes =
        save.image.substr(static_cast<size_t>(slice.offset), static_cast<size_t>(slice.bytes));
    slice.checksum = ChecksumOf(bytes);
    if (!save_nan && HasNan(tensor.dtype, bytes)) return NanError(tensor.name);
  }
  save.part.tensors = save.layout.tensors;
  std::sort(save.part.tensors.begin(), save.part.tensors.end(),
            [](const ManifestTensor& a, const ManifestTensor& b) { return a.name < b.name; });
  return absl::OkStatus();
}

std::string ShardPath(const Save& save) {
  return absl::StrCat(save.directory, "/", save.part.files.front().name);
}

}  // namespace

struct ShardSaver::Parts {
  struct Buffer {
    std::unique_ptr<HostBuffer> memory;  // Null until it is allocated.
    bool busy = false;
  };

  Parts(Platform& its_platform, const Options& its_options)
      : platform(its_platform), options(its_options) {}

  ~Parts() {
    if (reserving.joinable()) reserving.join();
  }

  void MakeFirstBuffer(int64_t bytes);
  absl::StatusOr<size_t> TakeBuffer(size_t bytes);
  char* MemoryOf(size_t buffer) const;
  void GiveBack(size_t buffer);
  bool IsFree() const ABSL_SHARED_LOCKS_REQUIRED(mu);
  Save Stage(const std::vector<const ShardEntry*>& entries, size_t first_at_once,
             ShardLayout layout, size_t buffer);
  absl::Status Write(Save& save) const;
  ShardResult FinishSave(Save& save) const;

  Platform& platform;
  const Options options;

  // Used by the training thread.
  std::thread reserving;
  std::shared_ptr<HostCopy> copying;  // Null while nothing is being copied.

  mutable absl::Mutex mu;
  int rank ABSL_GUARDED_BY(mu) = 0;
  int ranks ABSL_GUARDED_BY(mu) = 1;
  // The `memory` of a busy buffer belongs to its save, otherwise to the training thread.
  std::array<Buffer, 2> buffers ABSL_GUARDED_BY(mu);

  // Last members, because their threads use the others.
  TaskThread writer;
  TaskThread committer;  // Separate, since writing a shard may take long.
};

bool ShardSaver::Parts::IsFree() const {
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const Buffer& buffer) { return !buffer.busy; });
}

// Runs on a thread of its own.
void ShardSaver::Parts::MakeFirstBuffer(int64_t bytes) {
  try {
    auto memory = std::make_unique<HostBuffer>(platform, static_cast<size_t>(bytes) + kHeaderBytes);
    memory->Touch();
    const absl::MutexLock lock(&mu);
    buffers.front().memory = std::move(memory);
  } catch (const std::exception& error) {
    // The first save tries again and can report the failure.
    PACELINE_LOG(WARNING) << "no_memory_for_saves bytes=" << bytes << ": " << error.what();
  }
}

// Takes a free buffer with at least `bytes`. Unavailable: not enough memory.
absl::StatusOr<size_t> ShardSaver::Parts::TakeBuffer(size_t bytes) {
  if (reserving.joinable()) reserving.join();
  const absl::MutexLock lock(&mu);
  PACELINE_CHECK(IsFree()) << "a save was begun while two are being written";
  size_t chosen = buffers.size();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].busy && (chosen == buffers.size() || buffers[i].memory != nullptr)) chosen = i;
  }
  Buffer& buffer = buffers[chosen];
  if (buffer.memory == nullptr || buffer.memory->size() < bytes) {
    buffer.memory.reset();  // First: there may be no room for both.
    try {
      buffer.memory = std::make_unique<HostBuffer>(platform, bytes);
    } catch (const std::exception& error) {
      return absl::UnavailableError(
          absl::StrCat("no memory for a copy of ", bytes, " bytes: ", error.what()));
    }
  }
  buffer.busy = true;
  return chosen;
}

char* ShardSaver::Parts::MemoryOf(size_t buffer) const {
  const absl::MutexLock lock(&mu);
  return buffers[buffer].memory->data();
}

void ShardSaver::Parts::GiveBack(size_t buffer) {
  const absl::MutexLock lock(&mu);
  buffers[buffer].busy = false;
}

// Begins to copy the entries. Those from `first_at_once` on count as copied for the training thread
// when this returns.
Save ShardSaver::Parts::Stage(const std::vector<const ShardEntry*>& entries, size_t first_at_once,
                              ShardLayout layout, size_t buffer) {
  const auto bytes = static_cast<size_t>(layout.bytes);
  Save save;
  char* const memory = MemoryOf(buffer);
  save.image = {memory, bytes};
  std::memcpy(memory, layout.header.data(), layout.header.size());
  for (size_t i = 0; i < layout.order.size(); ++i) {
    const at::Tensor& rows = entries[layout.order[i]]->rows;
    Staging& staging = layout.order[i] < first_at_once ? save.rest : save.at_once;
    staging.pieces.push_back({static_cast<const char*>(rows.const_data_ptr()),
                              memory + layout.tensors[i].slices.front().offset, rows.nbytes()});
    save.sources.push_back(rows);
  }
  save.layout = std::move(layout);
  save.at_once.copy = platform.StartHostCopy(save.at_once.pieces);
  save.at_once.copy->BeforeChange();
  save.rest.copy = platform.StartHostCopy(save.rest.pieces);
  return save;
}

// Runs on the writer's thread.
absl::Status ShardSaver::Parts::Write(Save& save) const {
  // The future's destructor waits, so that nobody reads the buffer after this returns.
  std::future<absl::Status> checksums =
      std::async(std::launch::async, [&] { return TakeChecksums(save, options.save_nan); });
  if (!options.roots.empty()) {
    PACELINE_RETURN_IF_ERROR(
        CheckRoots(options.roots, {{"the checkpoint's directory", save.directory}}));
  }
  PACELINE_RETURN_IF_ERROR(MakeDirectory(save.directory, save.above));
  ShardWriteOptions writing;
  writing.bytes_per_second = options.write_limit;
  writing.wait = [&save](size_t end) { save.Wait(end); };
  PACELINE_RETURN_IF_ERROR(WriteShard(ShardPath(save), save.image, writing));
  absl::Status status = checksums.get();
  if (status.ok()) status = WritePart(save.directory, save.rank, save.part);
  if (!status.ok()) ::unlink(ShardPath(save).c_str());
  return status;
}

ShardResult ShardSaver::Parts::FinishSave(Save& save) const {
  ShardResult result;
  result.bytes = save.layout.bytes;
  try {
    result.status = Write(save);
  } catch (const std::exception& error) {  // From torch, or no memory.
    result.status = absl::UnavailableError(absl::StrCat("cannot save: ", error.what()));
  }
  save.staged = std::max(save.staged, save.begun);  // Writing may have failed before.
  result.staging_s = absl::ToDoubleSeconds(save.staged - save.begun);
  result.write_s = absl::ToDoubleSeconds(absl::Now() - save.staged);
  return result;
}

ShardSaver::ShardSaver(Platform& platform, const Options& options)
    : parts_(std::make_unique<Parts>(platform, options)) {}

ShardSaver::~ShardSaver() = default;

void ShardSaver::SetPlace(int rank, int ranks) {
  const absl::MutexLock lock(&parts_->mu);
  parts_->rank = rank;
  parts_->ranks = ranks;
}

void ShardSaver::Reserve(int64_t bytes) {
  PACELINE_CHECK(!parts_->reserving.joinable()) << "memory is reserved once";
  parts_->reserving = std::thread([parts = parts_.get(), bytes] { parts->MakeFirstBuffer(bytes); });
}

bool ShardSaver::IsFree() const {
  const absl::MutexLock lock(&parts_->mu);
  return parts_->IsFree();
}

void ShardSaver::WaitUntilFree() {
  const absl::MutexLock lock(&parts_->mu);
  parts_->mu.Await(absl::Condition(parts_.get(), &Parts::IsFree));
}

int64_t ShardSaver::Begin(const std::string& directory, const Manifest& part,
                          const std::vector<ShardEntry>& entries,
                          const std::vector<ShardEntry>& at_once,
                          std::function<void(const ShardResult&)> on_durable, int above) {
  const absl::Time begun = absl::Now();
  BeforeChange();  // For a save that has just begun.
  std::vector<const ShardEntry*> all;
  for (const ShardEntry& entry : entries) all.push_back(&entry);
  for (const ShardEntry& entry : at_once) all.push_back(&entry);
  int rank = 0;
  std::string file;
  {
    const absl::MutexLock lock(&parts_->mu);
    rank = parts_->rank;
    file = ShardName(rank, parts_->ranks);
  }
  const auto fail = [&](absl::Status status) {
    ShardResult result;
    result.status = std::move(status);
    parts_->writer.Enqueue([on_durable = std::move(on_durable), result] { on_durable(result); });
    return 0;
  };
  absl::StatusOr<ShardLayout> layout = LayOutShard(file, all);
  if (!layout.ok()) return fail(layout.status());
  const int64_t bytes = layout->bytes;
  const absl::StatusOr<size_t> taken = parts_->TakeBuffer(static_cast<size_t>(bytes));
  if (!taken.ok()) return fail(taken.status());
  const size_t buffer = *taken;
  auto save =
      std::make_shared<Save>(parts_->Stage(all, entries.size(), *std::move(layout), buffer));
  save->begun = begun;
  save->directory = directory;
  save->above = above;
  save->rank = rank;
  save->part = part;
  save->part.files = {{file, bytes}};
  parts_->copying = save->rest.copy;
  parts_->writer.Enqueue([parts = parts_.get(), save, buffer, on_durable = std::move(on_durable)] {
    const ShardResult result = parts->FinishSave(*save);
    parts->GiveBack(buffer);
    on_durable(result);
  });
  return bytes;
}

void ShardSaver::BeforeChange() {
  if (parts_->copying == nullptr) return;
  parts_->copying->BeforeChange();
  parts_->copying = nullptr;
}

void ShardSaver::Commit(const std::string& directory,
                        std::function<void(const absl::Status&, double seconds)> on_done) {
  int ranks = 0;
  {
    const absl::MutexLock lock(&parts_->mu);
    ranks = parts_->ranks;
  }
  parts_->committer.Enqueue([directory, ranks, on_done = std::move(on_done)] {
    const absl::Time begun = absl::Now();
    const absl::Status status = CommitParts(directory, ranks);
    on_done(status, absl::ToDoubleSeconds(absl::Now() - begun));
  });
}

void ShardSaver::Drain() {
  parts_->writer.Drain();
  parts_->committer.Drain();
}

}  // namespace paceline
