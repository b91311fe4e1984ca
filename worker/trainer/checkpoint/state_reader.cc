#include "worker/trainer/checkpoint/state_reader.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/dtype.h"

namespace paceline {
namespace {

// Small enough to stay in a core's cache between copy and checksum.
constexpr size_t kPieceBytes = 256 << 10;
constexpr uintptr_t kPageBytes = 4096;
// Bytes per read from the disk, and what O_DIRECT wants memory and offsets aligned to.
constexpr int64_t kWindowBytes = 4 << 20;
constexpr int64_t kAlignment = 4096;
// Reads of so many bytes are about as fast as longer ones.
constexpr size_t kLongRunBytes = 64 << 10;

// The part of a slice that a target wants. Boxes are of the whole tensor.
struct SliceToRead {
  const ManifestTensor* tensor;
  const TensorSlice* slice;
  absl::string_view mapped;   // The slice's bytes.
  int64_t element_bytes = 0;  // Of each.
  Box stored;                 // The slice.
  Box wanted;                 // The target.
  Box part;                   // What is in both.
  at::Tensor target;

  int64_t bytes() const { return ElementsOf(part.sizes) * element_bytes; }
  bool is_whole() const { return bytes() == slice->bytes; }
};

// The target's elements in the whole tensor.
Box WantedBox(const ReadTarget& target) {
  return target.slice.has_value() ? target.slice->box() : WholeBox(target.tensor.sizes().vec());
}

// Why a checkpoint's tensor cannot be read into `target`; empty if it can.
std::string Mismatch(const ManifestTensor* found, const ReadTarget& target) {
  if (found == nullptr) return absl::StrCat(target.name, " is missing");
  const at::Tensor& tensor = target.tensor;
  const std::vector<int64_t> shape =
      target.slice.has_value() ? target.slice->global_shape : tensor.sizes().vec();
  if (shape != found->shape) {
    return absl::StrCat(target.name, " has shape [", absl::StrJoin(found->shape, ", "),
                        "] and needs [", absl::StrJoin(shape, ", "), "]");
  }
  const Box wanted = WantedBox(target);
  if (!IsWithin(wanted, shape) || tensor.sizes() != at::IntArrayRef(wanted.sizes)) {
    return absl::StrCat(target.name, " needs a slice of [", absl::StrJoin(wanted.sizes, ", "),
                        "] elements from [", absl::StrJoin(wanted.offsets, ", "),
                        "] on, for a tensor of shape [", absl::StrJoin(tensor.sizes(), ", "),
                        "], and is itself [", absl::StrJoin(shape, ", "), "]");
  }
  if (!tensor.is_contiguous()) return absl::StrCat(target.name, " needs a contiguous tensor");
  const std::optional<at::ScalarType> type = TypeOfDtype(found->dtype);
  if (type == tensor.scalar_type()) return "";
  if (type.has_value() && at::isFloatingType(*type) && tensor.is_floating_point()) return "";
  return absl::StrCat(target.name, " is of type ", found->dtype, " and needs ",
                      at::toString(tensor.scalar_type()));
}

absl::Status CheckTargets(const CheckpointFiles& files, const std::vector<ReadTarget>& targets) {
  std::vector<std::string> problems;
  for (const ReadTarget& target : targets) {
    std::string problem = Mismatch(files.Find(target.name), target);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(files.directory(), ": does not fit the job: ", absl::StrJoin(problems, "; ")));
}

// All parts of slices that the targets want, largest first, so that the threads end at about the
// same time; parts of equal size in file order.
std::vector<SliceToRead> SlicesOf(const CheckpointFiles& files,
                                  const std::vector<ReadTarget>& targets) {
  std::vector<SliceToRead> slices;
  for (const ReadTarget& target : targets) {
    const ManifestTensor* const tensor = files.Find(target.name);
    const int64_t element_bytes = SafetensorsElementBytes(tensor->dtype);
    const Box wanted = WantedBox(target);
    for (const TensorSlice& slice : tensor->slices) {
      Box stored = BoxOf(*tensor, slice);
      std::optional<Box> part = Intersection(stored, wanted);
      if (!part.has_value()) continue;
      slices.push_back({tensor, &slice, files.Bytes(slice), element_bytes, std::move(stored),
                        wanted, *std::move(part), target.tensor});
    }
  }
  const auto place = [](const SliceToRead& one) {
    return std::make_tuple(-one.bytes(), absl::string_view(one.slice->file), one.slice->offset);
  };
  std::sort(slices.begin(), slices.end(),
            [&place](const SliceToRead& a, const SliceToRead& b) { return place(a) < place(b); });
  return slices;
}

// Rotates the slices so that each reader begins where its part of their bytes does.
void BeginWithPart(const Readers& readers, std::vector<SliceToRead>& slices) {
  int64_t total = 0;
  for (const SliceToRead& one : slices) total += one.bytes();
  const int64_t others = total / readers.count * readers.index;  // Bytes of the parts before.
  auto first = slices.begin();
  for (int64_t before = 0; first != slices.end() && before < others; ++first) {
    before += first->bytes();
  }
  std::rotate(slices.begin(), first, slices.end());
}

// Whether mapped bytes, at most kPieceBytes, are in the page cache, so that touching them needs no
// disk access.
bool AreCached(absl::string_view mapped) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapped.data()) / kPageBytes * kPageBytes;
  const uintptr_t end = reinterpret_cast<uintptr_t>(mapped.data()) + mapped.size();
  unsigned char pages[kPieceBytes / kPageBytes + 2];
  if (::mincore(reinterpret_cast<void*>(begin), end - begin, pages) != 0) return false;
  const size_t count = (end - begin + kPageBytes - 1) / kPageBytes;
  return std::all_of(pages, pages + count, [](unsigned char page) { return (page & 1) != 0; });
}

// Reads at least `needed` bytes from offset `begin` into aligned memory. `room` may reach beyond
// the end of the file.
bool ReadAligned(int fd, int64_t begin, char* to, size_t needed, size_t room) {
  size_t done = 0;
  while (done < needed) {
    const ssize_t got = ::pread(fd, to + done, room - done, begin + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && (::fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
      ::fcntl(fd, F_SETFL, 0);  // Refused by this file system.
      continue;
    }
    if (got == 0) errno = ENODATA;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

// The open shards, by name.
class OpenShards {
 public:
  // `direct`: past the page cache, where the file system can.
  explicit OpenShards(bool direct) : flags_(O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)) {}
  ~OpenShards() {
    for (const auto& [name, fd] : descriptors_) ::close(fd);
  }
  OpenShards(const OpenShards&) = delete;
  OpenShards& operator=(const OpenShards&) = delete;

  absl::Status Open(const CheckpointFiles& files, const TensorSlice& slice) {
    if (descriptors_.count(slice.file) > 0) return absl::OkStatus();
    const std::string path = files.PathOf(slice);
    int fd = ::open(path.c_str(), flags_);
    if (fd < 0 && errno == EINVAL) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    descriptors_[slice.file] = fd;
    return absl::OkStatus();
  }

  int DescriptorOf(const TensorSlice& slice) const { return descriptors_.at(slice.file); }

 private:
  const int flags_;
  std::map<std::string, int> descriptors_;
};

// Reads slices one after the other; each thread has its own reader.
class SliceReader {
 public:
  SliceReader(const CheckpointFiles& files, const OpenShards& shards)
      : files_(files), shards_(shards) {}

  absl::Status Read(const SliceToRead& one) {
    const at::ScalarType type = *TypeOfDtype(one.tensor->dtype);
    const bool straight = one.target.is_cpu() && one.target.scalar_type() == type;
    const RunWalk walk(one.part, one.stored, one.wanted);
    if (straight) {
      PACELINE_RETURN_IF_ERROR(
          ReadRuns(one, walk, static_cast<char*>(one.target.mutable_data_ptr())));
    } else if (walk.elements() == ElementsOf(one.part.sizes)) {
      PACELINE_RETURN_IF_ERROR(ReadConverted(one, walk, type));
    } else {
      const at::Tensor part = at::empty(one.part.sizes, HostOptions(type, one.target.device()));
      PACELINE_RETURN_IF_ERROR(ReadRuns(one, RunWalk(one.part, one.stored, one.part),
                                        static_cast<char*>(part.mutable_data_ptr())));
      RegionOf(one).copy_(part);
    }
    if (!one.is_whole()) return absl::OkStatus();
    return files_.VerifyChecksum(*one.tensor, *one.slice, checksum_.Take());
  }

 private:
  // On the host, and pinned for copies to a GPU.
  static at::TensorOptions HostOptions(at::ScalarType type, const at::Device& device) {
    return at::TensorOptions().dtype(type).pinned_memory(device.is_cuda());
  }

  // What of the target is read.
  static at::Tensor RegionOf(const SliceToRead& one) {
    at::Tensor region = one.target;
    for (size_t i = 0; i < one.part.sizes.size(); ++i) {
      region = region.narrow(static_cast<int64_t>(i), one.part.offsets[i] - one.wanted.offsets[i],
                             one.part.sizes[i]);
    }
    return region;
  }

  // Bytes of the slice that follow each other in its file and in the target.
  static absl::string_view RunAt(const SliceToRead& one, const RunWalk& walk) {
    return one.mapped.substr(static_cast<size_t>(walk.from() * one.element_bytes),
                             static_cast<size_t>(walk.elements() * one.element_bytes));
  }

  // Reads all runs into an array at `to`.
  absl::Status ReadRuns(const SliceToRead& one, RunWalk walk, char* to) {
    for (; !walk.done(); walk.Advance()) {
      const absl::string_view run = RunAt(one, walk);
      char* const run_to = to + walk.to() * one.element_bytes;
      for (size_t at = 0; at < run.size(); at += kPieceBytes) {
        PACELINE_RETURN_IF_ERROR(Take(one, run, at, run_to + at));
      }
    }
    return absl::OkStatus();
  }

  // Reads the only run piece by piece, and copies each to the target.
  absl::Status ReadConverted(const SliceToRead& one, const RunWalk& walk, at::ScalarType type) {
    const absl::string_view run = RunAt(one, walk);
    const at::Tensor target = one.target.view({-1});
    for (size_t at = 0; at < run.size(); at += kPieceBytes) {
      PACELINE_RETURN_IF_ERROR(Take(one, run, at, BufferFor(one.target.device())));
      const auto elements =
          static_cast<int64_t>(std::min(kPieceBytes, run.size() - at)) / one.element_bytes;
      target.narrow(0, walk.to() + static_cast<int64_t>(at) / one.element_bytes, elements)
          .copy_(buffer_.view(type).narrow(0, 0, elements));
    }
    return absl::OkStatus();
  }

  // Reads the run's piece at `at`. The pieces of a slice that is read whole come in its order.
  absl::Status Take(const SliceToRead& one, absl::string_view run, size_t at, char* to) {
    const absl::string_view piece = run.substr(at, kPieceBytes);
    // Where short runs are wanted, reading what is between them is faster than many small reads.
    const bool ahead = one.is_whole() || (run.size() < kLongRunBytes &&
                                          static_cast<int64_t>(run.size()) < one.bytes());
    PACELINE_RETURN_IF_ERROR(Fetch(one, piece, ahead ? one.mapped : run, to));
    if (one.is_whole()) checksum_.Add({to, piece.size()});
    return absl::OkStatus();
  }

  // Cached bytes are copied from the map: two threads copy 1 GiB in 0.10 s, while reads take 0.22
  // s. Other bytes are read with O_DIRECT by a process that reads alone: on a disk of 2.1 GB/s, 512
  // MiB take 0.25 s, and 0.6 to 1 s through the cache. Several processes share the cache: 1 GB took
  // two of them 0.5 s, and 0.7 s with O_DIRECT; four of them 0.8 and 1.4 s. With reads, a disk
  // error becomes a message instead of a signal. `around`: bytes around the piece that are also
  // worth reading.
  absl::Status Fetch(const SliceToRead& one, absl::string_view piece, absl::string_view around,
                     char* to) {
    const int64_t offset = one.slice->offset + (piece.data() - one.mapped.data());
    const auto end = offset + static_cast<int64_t>(piece.size());
    const bool in_window = window_of_ == one.slice && offset >= window_begin_ && end <= window_end_;
    if (!in_window) {
      if (IsCached(piece, around)) {
        std::memcpy(to, piece.data(), piece.size());
        return absl::OkStatus();
      }
      PACELINE_RETURN_IF_ERROR(
          FillWindow(one, offset, offset + (around.data() + around.size() - piece.data())));
    }
    std::memcpy(to, window_.get() + (offset - window_begin_), piece.size());
    return absl::OkStatus();
  }

  // Short runs are asked for together with what is around them: asking takes longer than a copy.
  bool IsCached(absl::string_view piece, absl::string_view around) {
    const char* const known_end = cached_.data() + cached_.size();
    if (piece.data() >= cached_.data() && piece.data() + piece.size() <= known_end) return true;
    const auto at = static_cast<size_t>(piece.data() - around.data());
    const absl::string_view asked = around.substr(at, kPieceBytes);
    if (!AreCached(asked)) return false;
    cached_ = asked;
    return true;
  }

  // Reads bytes of the slice from `offset` on into the window, none from `limit` on.
  absl::Status FillWindow(const SliceToRead& one, int64_t offset, int64_t limit) {
    if (window_ == nullptr) {
      window_.reset(
          static_cast<char*>(std::aligned_alloc(kAlignment, kWindowBytes + 2 * kAlignment)));
      if (window_ == nullptr) throw std::bad_alloc();
    }
    window_of_ = nullptr;
    window_begin_ = offset / kAlignment * kAlignment;
    window_end_ = std::min(offset + kWindowBytes, limit);
    const auto needed = static_cast<size_t>(window_end_ - window_begin_);
    const size_t room = (needed + kAlignment - 1) / kAlignment * kAlignment;
    if (!ReadAligned(shards_.DescriptorOf(*one.slice), window_begin_, window_.get(), needed,
                     room)) {
      return absl::DataLossError(absl::StrCat(files_.PathOf(*one.slice), ": tensor \"",
                                              one.tensor->name, "\": cannot be read at offset ",
                                              offset, ": ", std::strerror(errno)));
    }
    window_of_ = one.slice;
    return absl::OkStatus();
  }

  // The buffer is pinned for a GPU.
  char* BufferFor(const at::Device& device) {
    if (!buffer_.defined() || (device.is_cuda() && !buffer_.is_pinned())) {
      buffer_ = at::empty({static_cast<int64_t>(kPieceBytes)},
                          at::TensorOptions().dtype(at::kByte).pinned_memory(device.is_cuda()));
    }
    return static_cast<char*>(buffer_.mutable_data_ptr());
  }

  const CheckpointFiles& files_;
  const OpenShards& shards_;
  Checksum checksum_;
  at::Tensor buffer_;
  // The window: bytes of a slice read together.
  std::unique_ptr<char, decltype(&std::free)> window_{nullptr, &std::free};
  const TensorSlice* window_of_ = nullptr;  // Null: it is empty.
  int64_t window_begin_ = 0;
  int64_t window_end_ = 0;
  absl::string_view cached_;  // Mapped bytes that were in the page cache.
};

}  // namespace

absl::StatusOr<StateReader> StateReader::Open(const std::string& directory, int threads,
                                              const Readers& readers) {
  PACELINE_ASSIGN_OR_RETURN(CheckpointFiles files, CheckpointFiles::Open(directory));
  return StateReader(std::move(files), threads, readers);
}

StateReader::StateReader(CheckpointFiles files, int threads, const Readers& readers)
    : files_(std::move(files)), threads_(threads), readers_(readers) {}

absl::Status StateReader::Read(const std::vector<ReadTarget>& targets) {
  PACELINE_RETURN_IF_ERROR(CheckTargets(files_, targets));
  std::vector<SliceToRead> slices = SlicesOf(files_, targets);
  BeginWithPart(readers_, slices);
  OpenShards shards(/*direct=*/readers_.count == 1);
  for (const SliceToRead& one : slices) PACELINE_RETURN_IF_ERROR(shards.Open(files_, *one.slice));
  for (const SliceToRead& one : slices) {
    bytes_read_ += one.bytes();
    if (!one.is_whole()) bytes_unverified_ += one.bytes();
  }

  std::atomic<size_t> next{0};
  const auto work = [&]() -> absl::Status {
    const at::NoGradGuard no_grad;
    SliceReader reader(files_, shards);
    size_t index;
    while ((index = next++) < slices.size()) {
      const absl::Status status = reader.Read(slices[index]);
      if (status.ok()) continue;
      next = slices.size();  // Stops the other threads.
      return status;
    }
    return absl::OkStatus();
  };
  std::vector<std::future<absl::Status>> others;
  for (int i = 1; i < threads_; ++i) others.push_back(std::async(std::launch::async, work));
  absl::Status status = work();
  for (std::future<absl::Status>& other : others) status.Update(other.get());
  return status;
}

}  // namespace paceline
