#include "worker/trainer/data/training_data.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/object_url.h"
#include "common/core/status_macros.h"
#include "common/token_file/token_file.h"

namespace paceline {
namespace {

// `hash_key`: that in which the job file gives the hash.
absl::Status CheckHash(absl::string_view key, absl::string_view hash_key, const Dataset& dataset,
                       const std::string& wanted) {
  const std::string found = dataset.hash();
  if (wanted.empty() || found == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      key, ": ", dataset.path(), " is not the file that the job was submitted with: its header ",
      found.empty() ? "has no hash" : absl::StrCat("has the hash ", found),
      ", and the job asks for ", wanted, "; put that file back, or submit the job again, ",
      !found.empty()                ? absl::StrCat("with ", hash_key, ": ", found)
      : IsObjectUrl(dataset.path()) ? absl::StrCat("without ", hash_key)
                                    : "where this file is the one that `paceline submit` sees"));
}

// "uint16 tokens below 50257", "images of ...".
std::string ContentText(const SampleFormat& format) {
  if (format.token_bytes == 0) return FormatText(format);
  const std::string type = TokenTypeName(static_cast<TokenType>(format.token_bytes));
  return absl::StrCat(type, " tokens",
                      format.vocab_size > 0 ? absl::StrCat(" below ", format.vocab_size) : "");
}

// Files of other token types or vocabularies come from other tokenizers.
bool GoTogether(const SampleFormat& a, const SampleFormat& b) {
  const bool same_vocab = a.vocab_size == b.vocab_size || a.vocab_size == 0 || b.vocab_size == 0;
  return FormatText(a) == FormatText(b) && a.token_bytes == b.token_bytes && same_vocab;
}

}  // namespace

JoinedDataset::JoinedDataset(std::vector<std::unique_ptr<Dataset>> parts)
    : parts_(std::move(parts)), firsts_{0} {
  for (const auto& part : parts_) firsts_.push_back(firsts_.back() + part->size());
}

std::vector<int64_t> JoinedDataset::sizes() const {
  std::vector<int64_t> sizes;
  sizes.reserve(parts_.size());
  for (const auto& part : parts_) sizes.push_back(part->size());
  return sizes;
}

size_t JoinedDataset::PartOf(int64_t index) const {
  const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), index);
  return static_cast<size_t>(behind - firsts_.begin()) - 1;
}

bool JoinedDataset::is_remote() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->is_remote(); });
}

bool JoinedDataset::Expect(absl::Span<const int64_t> indices) const {
  return std::all_of(indices.begin(), indices.end(), [this](int64_t index) {
    const size_t part = PartOf(index);
    const int64_t within = index - firsts_[part];
    return !parts_[part]->is_remote() || parts_[part]->Expect(absl::MakeConstSpan(&within, 1));
  });
}

absl::Status JoinedDataset::ReadRows(absl::Span<const int64_t> indices, int64_t row,
                                     Batch* batch) const {
  std::vector<int64_t> within;
  for (size_t begin = 0; begin < indices.size();) {
    const size_t part = PartOf(indices[begin]);
    const int64_t first = firsts_[part];
    const int64_t end = firsts_[part + 1];
    within.clear();
    for (size_t at = begin; at < indices.size(); ++at) {
      if (indices[at] < first || indices[at] >= end) break;
      within.push_back(indices[at] - first);
    }
    PACELINE_RETURN_IF_ERROR(
        parts_[part]->ReadRows(within, row + static_cast<int64_t>(begin), batch));
    begin += within.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTrainingData(DatasetOpener& opener) {
  const DataConfig& config = opener.config();
  if (config.sources.empty()) {
    PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                              opener.Open("data.train", config.train));
    PACELINE_RETURN_IF_ERROR(
        CheckHash("data.train", "data.train_hash", *dataset, config.train_hash));
    return dataset;
  }
  std::vector<std::unique_ptr<Dataset>> parts;
  for (const DataConfig::Source& source : config.sources) {
    const std::string entry = absl::StrCat("data.train[", parts.size(), "]");
    const std::string key = entry + ".path";
    PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> part, opener.Open(key, source.path));
    PACELINE_RETURN_IF_ERROR(CheckHash(key, entry + ".hash", *part, source.hash));
    for (const auto& other : parts) {
      if (GoTogether(other->format(), part->format())) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          key, ": ", source.path, " holds ", ContentText(part->format()), ", and ", other->path(),
          " ", ContentText(other->format()), "; all files of data.train are to hold the same"));
    }
    parts.push_back(std::move(part));
  }
  return std::make_unique<JoinedDataset>(std::move(parts));
}

std::shared_ptr<const Mixture> MixtureOf(const DataConfig& config, const Dataset& dataset) {
  if (config.sources.empty() || config.sources.front().weight == 0) return nullptr;
  const std::vector<int64_t> sizes = dataset.sizes();
  std::vector<Mixture::Source> sources;
  for (size_t i = 0; i < sizes.size(); ++i) sources.push_back({sizes[i], config.sources[i].weight});
  return std::make_shared<const Mixture>(sources);
}

}  // namespace paceline
