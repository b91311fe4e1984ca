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
#include "worker/trainer/checkpoint/dtype.h"

namespace paceline {
namespace {

// Small enough to stay in a core's cache between copy and checksum.
constexpr size_t kPieceBytes = 256 << 10;
constexpr uintptr_t kPageBytes = 4096;
// Bytes per read from the disk, and what O_DIRECT wants memory and offsets aligned to.
constexpr int64_t kWindowBytes = 4 << 20;
constexpr int64_t kAlignment = 4096;

// A slice, and the target rows for it, flattened.
struct SliceToRead {
  const ManifestTensor* tensor;
  const TensorSlice* slice;
  at::Tensor rows;
};

// Why a checkpoint's tensor cannot be read into `target`; empty if it can.
std::string Mismatch(const ManifestTensor* found, const ReadTarget& target) {
  if (found == nullptr) return absl::StrCat(target.name, " is missing");
  const at::Tensor& wanted = target.tensor;
  if (wanted.sizes() != at::IntArrayRef(found->shape)) {
    return absl::StrCat(target.name, " has shape [", absl::StrJoin(found->shape, ", "),
                        "] and needs [", absl::StrJoin(wanted.sizes(), ", "), "]");
  }
  const std::optional<at::ScalarType> type = TypeOfDtype(found->dtype);
  if (type == wanted.scalar_type()) return "";
  if (type.has_value() && at::isFloatingType(*type) && wanted.is_floating_point()) return "";
  return absl::StrCat(target.name, " is of type ", found->dtype, " and needs ",
                      at::toString(wanted.scalar_type()));
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

// The rows of a slice, flattened.
at::Tensor RowsOf(const at::Tensor& tensor, const TensorSlice& slice) {
  const at::Tensor rows =
      tensor.dim() == 0 ? tensor : tensor.narrow(0, slice.first_row, slice.rows);
  return rows.view({-1});
}

// All slices of the targets, largest first, so that the threads end at about the same time; slices
// of equal size in file order.
std::vector<SliceToRead> SlicesOf(const CheckpointFiles& files,
                                  const std::vector<ReadTarget>& targets) {
  std::vector<SliceToRead> slices;
  for (const ReadTarget& target : targets) {
    const ManifestTensor* const tensor = files.Find(target.name);
    for (const TensorSlice& slice : tensor->slices) {
      if (slice.bytes > 0) slices.push_back({tensor, &slice, RowsOf(target.tensor, slice)});
    }
  }
  const auto place = [](const SliceToRead& one) {
    return std::make_tuple(-one.slice->bytes, absl::string_view(one.slice->file),
                           one.slice->offset);
  };
  std::sort(slices.begin(), slices.end(),
            [&place](const SliceToRead& a, const SliceToRead& b) { return place(a) < place(b); });
  return slices;
}

// Rotates the slices so that each reader begins where its part of their bytes does.
void BeginWithPart(const Readers& readers, std::vector<SliceToRead>& slices) {
  int64_t total = 0;
  for (const SliceToRead& one : slices) total += one.slice->bytes;
  const int64_t others = total / readers.count * readers.index;  // Bytes of the parts before.
  auto first = slices.begin();
  for (int64_t before = 0; first != slices.end() && before < others; ++first) {
    before += first->slice->bytes;
  }
  std::rotate(slices.begin(), first, slices.end());
}

// Whether mapped bytes are in the page cache, so that touching them needs no disk access.
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
    const size_t element_bytes = c10::elementSize(type);
    const bool straight = one.rows.is_cpu() && one.rows.scalar_type() == type;
    const absl::string_view mapped = files_.Bytes(*one.slice);
    for (size_t at = 0; at < mapped.size(); at += kPieceBytes) {
      const absl::string_view piece = mapped.substr(at, kPieceBytes);
      char* const to = straight ? static_cast<char*>(one.rows.mutable_data_ptr()) + at
                                : BufferFor(one.rows.device());
      PACELINE_RETURN_IF_ERROR(Fetch(one, piece, at, to));
      checksum_.Add({to, piece.size()});
      if (straight) continue;
      const auto elements = static_cast<int64_t>(piece.size() / element_bytes);
      one.rows.narrow(0, static_cast<int64_t>(at / element_bytes), elements)
          .copy_(buffer_.view(type).narrow(0, 0, elements));
    }
    return files_.VerifyChecksum(*one.tensor, *one.slice, checksum_.Take());
  }

 private:
  // Cached bytes are copied from the map: two threads copy 1 GiB in 0.10 s, while reads take 0.22
  // s. Other bytes are read with O_DIRECT by a process that reads alone: on a disk of 2.1 GB/s, 512
  // MiB take 0.25 s, and 0.6 to 1 s through the cache. Several processes share the cache: 1 GB took
  // two of them 0.5 s, and 0.7 s with O_DIRECT; four of them 0.8 and 1.4 s. With reads, a disk
  // error becomes a message instead of a signal.
  absl::Status Fetch(const SliceToRead& one, absl::string_view piece, size_t at, char* to) {
    const int64_t offset = one.slice->offset + static_cast<int64_t>(at);
    const auto end = offset + static_cast<int64_t>(piece.size());
    const bool in_window = window_of_ == one.slice && offset >= window_begin_ && end <= window_end_;
    if (!in_window) {
      if (AreCached(piece)) {
        std::memcpy(to, piece.data(), piece.size());
        return absl::OkStatus();
      }
      PACELINE_RETURN_IF_ERROR(FillWindow(one, offset));
    }
    std::memcpy(to, window_.get() + (offset - window_begin_), piece.size());
    return absl::OkStatus();
  }

  // Reads the slice's bytes from `offset` on into the window.
  absl::Status FillWindow(const SliceToRead& one, int64_t offset) {
    if (window_ == nullptr) {
      window_.reset(
          static_cast<char*>(std::aligned_alloc(kAlignment, kWindowBytes + 2 * kAlignment)));
      if (window_ == nullptr) throw std::bad_alloc();
    }
    window_of_ = nullptr;
    window_begin_ = offset / kAlignment * kAlignment;
    window_end_ = std::min(offset + kWindowBytes, one.slice->offset + one.slice->bytes);
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
  for (const SliceToRead& one : slices) bytes_read_ += one.slice->bytes;

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
