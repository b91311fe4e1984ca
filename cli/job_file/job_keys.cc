#include "cli/job_file/job_keys.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

// "faults[12].rank" as "faults[].rank".
std::string WithoutIndices(absl::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

}  // namespace

const std::vector<JobKey>& JobKeys() {
  using T = KeyType;
  // clang-format off
  static const std::vector<JobKey>* const keys = new std::vector<JobKey>{
      {"name", T::kText, "", "required", "1 to 63 lower-case letters, digits, hyphens; a letter first", "digits-resnet18",
       "Name for people; need not be unique."},
      {"ranks", T::kInteger, "", "1", "1 to 4096", "4", "Number of ranks, one trainer process each.", true},
      {"device", T::kChoice, "", "cpu", "cpu, cuda", "cpu",
       "Where ranks compute: each takes a slot (cpu) or a GPU (cuda) of its node."},
      {"threads_per_rank", T::kInteger, "", "0", "0 to 1024", "1",
       "CPU threads of each rank's tensor operations; 0 is the node's cores divided by its slots."},

      {"model", T::kGroup, "", "", "", "", "What is trained."},
      {"model.kind", T::kChoice, "", "required", "resnet18, mlp", "resnet18",
       "The architecture; channels and classes come from the data."},
      {"model.hidden", T::kIntegers, "", "[128]", "each 1 to 2147483647", "[64, 64]",
       "Widths of the hidden layers. Only with kind mlp."},

      {"data", T::kGroup, "", "", "", "", "What it is trained on."},
      {"data.train", T::kPath, "", "required", "", "digits-train.shard",
       "Image-shard file with the training samples, readable on every node."},
      {"data.eval", T::kPath, "", "none", "", "digits-test.shard",
       "Image-shard file with the evaluation samples; without it nothing is evaluated."},
      {"data.order", T::kChoice, "", "shuffle", "shuffle, sequential", "shuffle",
       "Order within an epoch: a new permutation for each, or the file's."},

      {"batch_per_rank", T::kInteger, "samples", "32", "1 and more", "32", "Samples per rank and step.", true},
      {"steps", T::kInteger, "steps", "required", "1 and more", "400", "Number of optimizer steps.", true},

      {"optimizer", T::kGroup, "", "", "", "", "How weights are updated."},
      {"optimizer.kind", T::kChoice, "", "required", "sgd, adamw", "sgd", "The update rule."},
      {"optimizer.learning_rate", T::kNumber, "", "required", "more than 0", "0.1", "Peak learning rate.", true},
      {"optimizer.weight_decay", T::kNumber, "", "0", "0 and more", "5e-4",
       "Decay of the weights, coupled in sgd, decoupled in adamw."},
      {"optimizer.momentum", T::kNumber, "", "0", "0 <= x < 1", "0.9", "Momentum. Only with kind sgd."},
      {"optimizer.nesterov", T::kBool, "", "false", "needs momentum above 0", "true",
       "Nesterov's form of the momentum. Only with kind sgd."},
      {"optimizer.beta1", T::kNumber, "", "0.9", "0 <= x < 1", "0.9",
       "Decay rate of the first moment. Only with kind adamw."},
      {"optimizer.beta2", T::kNumber, "", "0.999", "0 <= x < 1", "0.95",
       "Decay rate of the second moment. Only with kind adamw."},
      {"optimizer.epsilon", T::kNumber, "", "1e-8", "more than 0", "1e-6",
       "Added to the denominator. Only with kind adamw."},

      {"schedule", T::kGroup, "", "", "", "", "Learning rate over the steps."},
      {"schedule.kind", T::kChoice, "", "constant", "constant, cosine, step", "cosine",
       "After the warm-up: the peak, half a cosine down from it, or a reduction every so many steps."},
      {"schedule.warmup_steps", T::kInteger, "steps", "0", "0 and more, less than steps", "20",
       "Steps over which the learning rate rises linearly from 0."},
      {"schedule.final_ratio", T::kNumber, "", "0", "0 to 1", "0.01",
       "Learning rate at the last step as a share of the peak. Only with kind cosine."},
      {"schedule.every", T::kInteger, "steps", "required with kind step", "1 and more", "100",
       "Steps between two reductions. Only with kind step.", true},
      {"schedule.gamma", T::kNumber, "", "0.1", "0 < x <= 1", "0.5", "Factor of each reduction. Only with kind step."},

      {"seed", T::kInteger, "", "0", "0 and more", "1", "Seed of the initial weights and of the data order."},
      {"precision", T::kChoice, "", "fp32", "fp32, bf16", "fp32",
       "Number format of the forward and backward pass; weights stay fp32."},

      {"evaluation", T::kGroup, "", "", "", "", "Evaluation on data.eval, at the end in any case."},
      {"evaluation.every", T::kInteger, "steps", "0", "0 and more; above 0 needs data.eval", "50",
       "Evaluate every so many steps too; 0 is at the end only."},

      {"checkpoint", T::kGroup, "", "", "", "", "Where weights are written."},
      {"checkpoint.directory", T::kPath, "", "none", "", "/srv/checkpoints",
       "Directory that every node can write. At the end the weights go to JOB_ID/final.safetensors in it."},

      {"init_from", T::kPath, "", "none", "", "resnet18.safetensors",
       "Initial weights, a .safetensors or .pt file that every node can read; without it they come from the seed."},
      {"log_every", T::kInteger, "steps", "10", "1 and more", "20",
       "A log line with step and loss is written every so many steps.", true},
      {"collective_timeout_s", T::kNumber, "s", "300", "more than 0", "60",
       "Longest time that a collective may take, from the first step on.", true},

      {"faults", T::kGroups, "", "none", "", "", "Failures to inject, for drills and tests."},
      {"faults[].rank", T::kInteger, "", "0", "0 to ranks - 1", "1", "The rank that fails, counted from 0."},
      {"faults[].step", T::kInteger, "steps", "0", "0 to steps - 1", "50",
       "The step before which it happens, counted from 0."},
      {"faults[].kind", T::kChoice, "", "required", "throw, abort, exit, out_of_memory, sleep", "throw",
       "What happens: an exception, abort(), exit code 42, an allocation of 2^60 bytes, a pause."},
      {"faults[].seconds", T::kNumber, "s", "0", "0 and more", "30", "How long a sleep lasts."},
  };
  // clang-format on
  return *keys;
}

const JobKey* FindJobKey(absl::string_view path) {
  const std::string plain = WithoutIndices(path);
  for (const JobKey& key : JobKeys()) {
    if (plain == key.path) return &key;
  }
  return nullptr;
}

std::vector<std::string> KeysBelow(absl::string_view group) {
  const std::string prefix = group.empty() ? "" : absl::StrCat(WithoutIndices(group), ".");
  std::vector<std::string> keys;
  for (const JobKey& key : JobKeys()) {
    absl::string_view rest = key.path;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    if (!absl::StrContains(rest, '.')) keys.emplace_back(rest);
  }
  return keys;
}

const char* TypeName(KeyType type) {
  switch (type) {
    case KeyType::kGroup:
      return "group of keys";
    case KeyType::kGroups:
      return "list of groups";
    case KeyType::kText:
      return "text";
    case KeyType::kPath:
      return "path";
    case KeyType::kInteger:
      return "whole number";
    case KeyType::kIntegers:
      return "list of whole numbers";
    case KeyType::kNumber:
      return "number";
    case KeyType::kBool:
      return "true or false";
    case KeyType::kChoice:
      return "choice";
  }
  return "";
}

}  // namespace paceline
