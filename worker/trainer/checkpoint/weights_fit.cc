#include "worker/trainer/checkpoint/weights_fit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "worker/trainer/checkpoint/dtype.h"

namespace paceline {
namespace {

constexpr size_t kReported = 10;

// A llama with a tied embedding only has the embedding's name; files may also have this one.
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";

std::string ShapeText(at::IntArrayRef shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Formats "a, b, c and 17 more".
std::string Listed(const std::vector<std::string>& all, absl::string_view separator) {
  const size_t reported = std::min(all.size(), kReported);
  std::string text =
      absl::StrJoin(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(reported), separator);
  if (reported < all.size()) absl::StrAppend(&text, " and ", all.size() - reported, " more");
  return text;
}

// Removes the parts of a name that wrappers add.
std::string Unwrapped(const std::string& name) {
  std::vector<std::string> parts = absl::StrSplit(name, '.');
  const auto wraps = [&](const std::string& part) {
    return part == "_orig_mod" || part == "_fsdp_wrapped_module" ||
           part == "_checkpoint_wrapped_module" || (part == "module" && &part == &parts.front());
  };
  std::vector<std::string> kept;
  for (const std::string& part : parts) {
    if (!wraps(part)) kept.push_back(part);
  }
  return absl::StrJoin(kept, ".");
}

// Whether models compute this tensor themselves.
bool IsComputed(const std::string& name, const FoundTensor& tensor) {
  const auto ends = [&](absl::string_view end) {
    return name == end || absl::EndsWith(name, absl::StrCat(".", end));
  };
  if (ends("rotary_emb.inv_freq") || ends("position_ids")) return true;
  if (ends("attn.masked_bias")) return tensor.shape.size() <= 1;
  const std::vector<int64_t>& shape = tensor.shape;
  return ends("attn.bias") && shape.size() == 4 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == shape[3];
}

class Fitter {
 public:
  Fitter(const FoundWeights& found, const ModelTensors& model) : found_(found) {
    for (const auto* list : {&model.parameters(), &model.buffers()}) {
      for (const NamedTensor& one : *list) {
        first_[one.name] = one.name;
        wanted_.push_back(&one);
      }
    }
    for (const TiedName& tied : model.tied()) first_[tied.name] = tied.first;
  }

  absl::StatusOr<WeightsFit> Run() {
    for (const auto& [name, tensor] : found_.tensors) Place(name, tensor);
    for (const NamedTensor* wanted : wanted_) Check(*wanted);
    TellUnknown();
    if (!problems_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("does not fit the model: ", Listed(problems_, "; "), Hint()));
    }
    std::vector<std::string>& notes = fit_.notes;
    if (!wrapped_.empty()) {
      notes.push_back(absl::StrCat("names without what wrappers had added to ", wrapped_.size(),
                                   " of them, as ", wrapped_.front()));
    }
    if (!computed_.empty()) {
      notes.push_back(
          absl::StrCat("passed over, as the model computes it: ", Listed(computed_, ", ")));
    }
    if (!uncounted_.empty()) {
      notes.push_back(absl::StrCat("the file has no num_batches_tracked, which begins as it is: ",
                                   Listed(uncounted_, ", ")));
    }
    return std::move(fit_);
  }

 private:
  void Place(const std::string& name, const FoundTensor& tensor) {
    auto known = first_.find(name);
    if (known == first_.end()) {
      known = first_.find(Unwrapped(name));
      if (known != first_.end()) wrapped_.push_back(name);
    }
    if (known != first_.end()) {
      sources_[known->second].push_back(name);
    } else if (IsComputed(name, tensor)) {
      computed_.push_back(name);
    } else {
      unknown_.push_back(name);
    }
  }

  void Check(const NamedTensor& wanted) {
    const auto at = sources_.find(wanted.name);
    if (at == sources_.end()) {
      const bool counts = absl::EndsWith(wanted.name, "num_batches_tracked");
      (counts ? uncounted_ : problems_)
          .push_back(counts ? wanted.name : absl::StrCat(wanted.name, " is missing"));
      return;
    }
    const std::string& source = at->second.front();
    fit_.sources[wanted.name] = source;
    for (const std::string& name : at->second) CheckOne(wanted, name);
    for (size_t i = 1; i < at->second.size(); ++i) {
      if (Alike(source, at->second[i])) continue;
      problems_.push_back(absl::StrCat(source, " and ", at->second[i],
                                       " are one tensor in the model and differ in the file"));
    }
  }

  void CheckOne(const NamedTensor& wanted, const std::string& name) {
    const FoundTensor& tensor = found_.tensors.at(name);
    const at::IntArrayRef shape = wanted.slice.has_value()
                                      ? at::IntArrayRef(wanted.slice->global_shape)
                                      : wanted.tensor.sizes();
    if (shape != at::IntArrayRef(tensor.shape)) {
      problems_.push_back(absl::StrCat(name, " has shape ", ShapeText(tensor.shape), " and needs ",
                                       ShapeText(shape)));
      return;
    }
    const at::ScalarType type = wanted.tensor.scalar_type();
    const std::optional<at::ScalarType> found = tensor.torch_type;
    if (found.has_value() && at::isFloatingType(type) == at::isFloatingType(*found) &&
        (type == at::kBool) == (*found == at::kBool)) {
      return;
    }
    problems_.push_back(absl::StrCat(
        name, " is of type ", tensor.type, " and needs ", DtypeOfType(type),
        at::isFloatingType(type) ? ": if these are quantised weights, convert them to bf16 first"
                                 : ""));
  }

  bool Alike(const std::string& a, const std::string& b) const {
    const at::Tensor& one = found_.tensors.at(a).tensor;
    const at::Tensor& other = found_.tensors.at(b).tensor;
    const at::NoGradGuard no_grad;
    return one.defined() && other.defined() && one.scalar_type() == other.scalar_type() &&
           one.sizes() == other.sizes() && at::equal(one, other);
  }

  void TellUnknown() {
    for (const std::string& name : unknown_) {
      const bool tied_head = name == kHead && first_.count(kEmbedding) > 0 &&
                             found_.tensors.count(kEmbedding) > 0 && Alike(kHead, kEmbedding);
      if (!tied_head) problems_.push_back(absl::StrCat(name, " is not in the model"));
    }
  }

  // Advice if the names would fit without a prefix.
  std::string Hint() const {
    if (unknown_.empty()) return "";
    const std::string& file = unknown_.front();
    for (const auto& [name, first] : first_) {
      if (absl::EndsWith(file, absl::StrCat(".", name))) {
        return absl::StrCat(" (the file's names begin with ",
                            file.substr(0, file.size() - name.size()),
                            ", the model's do not: save the inner module's state dict)");
      }
      if (absl::EndsWith(name, absl::StrCat(".", file))) {
        return absl::StrCat(" (the model's names begin with ",
                            name.substr(0, name.size() - file.size()),
                            ", the file's do not: save the outer module's state dict)");
      }
    }
    return "";
  }

  const FoundWeights& found_;
  std::map<std::string, std::string> first_;  // Any name in the model -> first name of its tensor.
  std::vector<const NamedTensor*> wanted_;
  std::map<std::string, std::vector<std::string>> sources_;  // First name -> names in the file.
  std::vector<std::string> wrapped_;
  std::vector<std::string> computed_;
  std::vector<std::string> uncounted_;
  std::vector<std::string> unknown_;
  std::vector<std::string> problems_;
  WeightsFit fit_;
};

}  // namespace

absl::StatusOr<WeightsFit> FitWeights(const FoundWeights& found, const ModelTensors& model) {
  return Fitter(found, model).Run();
}

}  // namespace paceline
