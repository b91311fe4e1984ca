#include "worker/trainer/copies/state_image.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/checkpoint/train_state.h"

namespace paceline {
namespace {

// "pacopy02"; images of earlier releases have no momenta.
constexpr uint64_t kMagic = 0x7061636f70793032;
constexpr size_t kAlignment = 64;
constexpr std::array<Attachments::Scope, 2> kScopes = {Attachments::Scope::kShared,
                                                       Attachments::Scope::kOwn};

struct Header {
  uint64_t magic = kMagic;
  uint64_t bytes = 0;        // Of the image.
  uint64_t fixed_bytes = 0;  // Of the tensors that are always there.
  std::array<uint64_t, kScopes.size()> schema_bytes{};
  uint64_t levels = 0;
  int64_t gradient_rest = 0;  // Its values; 0: none.
  ImageFacts facts;
};
static_assert(std::is_trivially_copyable_v<Header>);

// Values in the tensors of a StrategyMemory::Level.
struct LevelSizes {
  int64_t number = 0;  // That of the reference.
  int64_t reference = 0;
  int64_t own = 0;
  int64_t mean = 0;
  int64_t momentum = 0;
  int64_t sent = 0;
  StreamPosition stream;  // StreamMemory::position
};
static_assert(std::is_trivially_copyable_v<LevelSizes>);

int64_t CountValues(const at::Tensor& tensor) { return tensor.defined() ? tensor.numel() : 0; }

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Parameters, and the optimizer's state if that is not attached.
std::vector<at::Tensor> StepTensors(const StateParts& parts) {
  std::vector<at::Tensor> tensors = TensorsOf(parts.model.parameters());
  if (parts.attachments != nullptr) return tensors;
  for (const at::Tensor& tensor : parts.optimizer.State()) tensors.push_back(tensor);
  return tensors;
}

// What the next forward pass may change.
std::vector<at::Tensor> PassTensors(const StateParts& parts, const RandomNumbers& random) {
  std::vector<at::Tensor> tensors = TensorsOf(parts.model.buffers());
  for (const at::Tensor& tensor : random.tensors()) tensors.push_back(tensor);
  return tensors;
}

size_t BytesOf(const std::vector<at::Tensor>& tensors) {
  size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += Aligned(tensor.nbytes());
  return bytes;
}

// Reads an image from its beginning to its end.
class ImageReader {
 public:
  ImageReader(const char* image, size_t bytes) : image_(image), bytes_(bytes) {}

  // Null: it is too short.
  const char* Take(size_t bytes) {
    if (bytes > bytes_ || Aligned(bytes) > bytes_ - at_) return nullptr;
    const char* const taken = image_ + at_;
    at_ += Aligned(bytes);
    return taken;
  }
  bool is_at_end() const { return at_ == bytes_; }

 private:
  const char* const image_;
  const size_t bytes_;
  size_t at_ = 0;
};

// A tensor of the shape of `like` in the image's memory.
at::Tensor ViewOf(const char* memory, const at::Tensor& like) {
  return at::from_blob(const_cast<char*>(memory), like.sizes(),
                       at::TensorOptions().dtype(like.scalar_type()));
}

absl::Status DoesNotFit(const std::string& why) {
  return absl::DataLossError(absl::StrCat("a copy of the state does not fit: ", why));
}

// Where each of the tensors is in the image, without changing any.
absl::Status Find(const std::vector<at::Tensor>& tensors, ImageReader& reader,
                  std::vector<const char*>* places) {
  for (const at::Tensor& tensor : tensors) {
    places->push_back(reader.Take(tensor.nbytes()));
    if (places->back() == nullptr) return DoesNotFit("it is too short");
  }
  return absl::OkStatus();
}

void CopyAll(const std::vector<const char*>& places, const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].numel() > 0) tensors[i].detach().copy_(ViewOf(places[i], tensors[i]));
  }
}

// Adds the image's levels to `levels`.
absl::Status ReadLevels(uint64_t count, at::Device device, ImageReader& reader,
                        std::vector<StrategyMemory::Level>* levels) {
  if (count == 0) return absl::OkStatus();
  const char* const stored = reader.Take(count * sizeof(LevelSizes));
  if (stored == nullptr) return DoesNotFit("it is too short");
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
  for (uint64_t i = 0; i < count; ++i) {
    LevelSizes sizes;
    std::memcpy(&sizes, stored + i * sizeof(sizes), sizeof(sizes));
    StrategyMemory::Level& level = levels->emplace_back();
    level.reference_number = sizes.number;
    std::vector<at::Tensor> tensors;
    const auto make = [&](int64_t size, at::Tensor* tensor) {
      if (size <= 0) return;
      *tensor = at::empty({size}, floats);
      tensors.push_back(*tensor);
    };
    make(sizes.reference, &level.reference);
    make(sizes.own, &level.residuals.own);
    make(sizes.mean, &level.residuals.mean);
    make(sizes.momentum, &level.momentum);
    make(sizes.sent, &level.stream.sent);
    level.stream.position = sizes.stream;
    std::vector<const char*> places;
    const absl::Status found = Find(tensors, reader, &places);
    if (!found.ok()) return found;
    CopyAll(places, tensors);
  }
  return absl::OkStatus();
}

// Reads that of so many values; undefined for 0.
absl::StatusOr<at::Tensor> ReadRest(int64_t values, at::Device device, ImageReader& reader) {
  if (values <= 0) return at::Tensor();
  const std::vector<at::Tensor> rest{
      at::empty({values}, at::TensorOptions().dtype(at::kFloat).device(device))};
  std::vector<const char*> places;
  const absl::Status found = Find(rest, reader, &places);
  if (!found.ok()) return found;
  CopyAll(places, rest);
  return rest.front();
}

absl::StatusOr<Header> ReadHeader(ImageReader& reader, size_t bytes) {
  Header header;
  const char* const stored = reader.Take(sizeof(Header));
  if (stored == nullptr) return DoesNotFit("it is too short");
  std::memcpy(&header, stored, sizeof(Header));
  if (header.magic != kMagic || header.bytes != bytes) return DoesNotFit("its header is damaged");
  return header;
}

}  // namespace

StateImage::StateImage(const StateParts& parts, const ImageFacts& facts) {
  const at::NoGradGuard no_grad;
  Header header;
  header.facts = facts;
  bytes_ = Aligned(sizeof(Header));
  for (const at::Tensor& tensor : StepTensors(parts)) Add(tensor, /*at_once=*/false);
  const RandomNumbers random(parts.model.device());
  for (const at::Tensor& tensor : PassTensors(parts, random)) Add(tensor, /*at_once=*/true);
  header.fixed_bytes = bytes_ - Aligned(sizeof(Header));
  if (parts.attachments != nullptr) {
    for (size_t i = 0; i < kScopes.size(); ++i) {
      const Attachment attachment = parts.attachments->Take(kScopes[i]);
      header.schema_bytes[i] = attachment.schema.size();
      AddText(attachment.schema);
      for (const at::Tensor& tensor : attachment.tensors) {
        Add(tensor, /*at_once=*/kScopes[i] == Attachments::Scope::kOwn);
      }
    }
  }
  if (parts.levels != nullptr && !parts.levels->empty()) {
    header.levels = parts.levels->size();
    AddLevels(*parts.levels);
  }
  if (parts.gradient_rest != nullptr && parts.gradient_rest->defined()) {
    header.gradient_rest = parts.gradient_rest->numel();
    Add(*parts.gradient_rest, /*at_once=*/false);
  }
  header.bytes = bytes_;
  header_.assign(reinterpret_cast<const char*>(&header), sizeof(Header));
}

void StateImage::Add(const at::Tensor& tensor, bool at_once) {
  const at::Tensor source = tensor.detach().contiguous();
  if (source.nbytes() > 0) (at_once ? at_once_ : rest_).push_back({source, bytes_});
  bytes_ += Aligned(source.nbytes());
}

void StateImage::AddText(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  Add(bytes, /*at_once=*/true);
}

void StateImage::AddLevels(const std::vector<StrategyMemory::Level>& levels) {
  std::string text;
  for (const StrategyMemory::Level& level : levels) {
    const LevelSizes sizes{level.reference_number,
                           CountValues(level.reference),
                           CountValues(level.residuals_to_send().own),
                           CountValues(level.residuals_to_send().mean),
                           CountValues(level.momentum),
                           CountValues(level.stream.sent),
                           level.stream.position};
    text.append(reinterpret_cast<const char*>(&sizes), sizeof(sizes));
  }
  AddText(text);
  for (const StrategyMemory::Level& level : levels) {
    // All go back together, so nobody has taken up a streamed average under way.
    const auto& residuals = level.residuals_to_send();
    for (const at::Tensor& tensor :
         {level.reference, residuals.own, residuals.mean, level.momentum, level.stream.sent}) {
      if (CountValues(tensor) > 0) Add(tensor, /*at_once=*/false);
    }
  }
}

void StateImage::Stage(Platform& platform, char* memory) {
  const auto start = [&](const std::vector<Piece>& pieces) {
    std::vector<HostCopyPiece> copied;
    for (const Piece& piece : pieces) {
      copied.push_back({static_cast<const char*>(piece.source.const_data_ptr()),
                        memory + piece.offset, piece.source.nbytes()});
    }
    return platform.StartHostCopy(copied);
  };
  std::memcpy(memory, header_.data(), header_.size());
  at_once_copy_ = start(at_once_);
  at_once_copy_->BeforeChange();
  rest_copy_ = start(rest_);
}

void StateImage::BeforeChange() { rest_copy_->BeforeChange(); }

void StateImage::Wait() const {
  const auto wait = [](HostCopy& copy, const std::vector<Piece>& pieces) {
    size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.source.nbytes();
    copy.Wait(bytes);
  };
  wait(*at_once_copy_, at_once_);
  wait(*rest_copy_, rest_);
}

absl::Status RestoreImage(const char* image, size_t bytes, const StateParts& parts,
                          ImageFacts* facts) {
  const at::NoGradGuard no_grad;
  ImageReader reader(image, bytes);
  const absl::StatusOr<Header> header = ReadHeader(reader, bytes);
  if (!header.ok()) return header.status();
  std::vector<at::Tensor> tensors = StepTensors(parts);
  const RandomNumbers random(parts.model.device());
  for (const at::Tensor& tensor : PassTensors(parts, random)) tensors.push_back(tensor);
  if (BytesOf(tensors) != header->fixed_bytes) return DoesNotFit("another model made it");
  std::vector<const char*> places;
  absl::Status found = Find(tensors, reader, &places);
  if (!found.ok()) return found;
  std::vector<std::pair<Attachments::Scope, Attachment>> attached;
  for (size_t i = 0; parts.attachments != nullptr && i < kScopes.size(); ++i) {
    const char* const schema = reader.Take(header->schema_bytes[i]);
    if (schema == nullptr) return DoesNotFit("it is too short");
    Attachment attachment;
    attachment.schema.assign(schema, header->schema_bytes[i]);
    attachment.tensors = parts.attachments->Allocate(kScopes[i], attachment.schema);
    std::vector<const char*> of_tensors;
    found = Find(attachment.tensors, reader, &of_tensors);
    if (!found.ok()) return found;
    CopyAll(of_tensors, attachment.tensors);
    attached.emplace_back(kScopes[i], std::move(attachment));
  }
  std::vector<StrategyMemory::Level> levels;
  if (parts.levels != nullptr) {
    found = ReadLevels(header->levels, parts.model.device(), reader, &levels);
    if (!found.ok()) return found;
  }
  at::Tensor gradient_rest;
  if (parts.gradient_rest != nullptr) {
    absl::StatusOr<at::Tensor> read = ReadRest(header->gradient_rest, parts.model.device(), reader);
    if (!read.ok()) return read.status();
    gradient_rest = *std::move(read);
  }
  if (!reader.is_at_end()) return DoesNotFit("it is too long");
  CopyAll(places, tensors);
  for (const auto& [scope, attachment] : attached) parts.attachments->Put(scope, attachment);
  random.Restore();
  if (parts.levels != nullptr) *parts.levels = std::move(levels);
  if (parts.gradient_rest != nullptr) *parts.gradient_rest = std::move(gradient_rest);
  *facts = header->facts;
  return absl::OkStatus();
}

}  // namespace paceline
