#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

using absl::StrCat;

// At most `size` bytes of `text`, without a part of a UTF-8 character at the end.
std::string Beginning(const std::string& text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (text[size] & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

// Collects the problems of one spec, one method per part of it.
class SpecCheck {
 public:
  std::vector<SpecProblem> Run(const v1::JobSpec& spec) {
    CheckName(spec.name());
    CheckRange("ranks", spec.ranks(), 1, 4096);
    CheckEnum("device", spec.device(), v1::Device_IsValid(spec.device()), "cpu or cuda");
    CheckRange("threads_per_rank", spec.threads_per_rank(), 0, 1024);
    CheckModel(spec.model());
    CheckData(spec.data());
    CheckAtLeast("batch_per_rank", spec.batch_per_rank(), 1);
    if (spec.steps() == 0) {
      Add("steps", "is missing; give the number of optimizer steps, at least 1");
    } else {
      CheckAtLeast("steps", spec.steps(), 1);
    }
    CheckOptimizer(spec.optimizer());
    CheckSchedule(spec.schedule(), spec.steps());
    CheckAtLeast("seed", spec.seed(), 0);
    CheckEnum("precision", spec.precision(), v1::Precision_IsValid(spec.precision()),
              "fp32 or bf16");
    CheckEvaluation(spec);
    CheckAtLeast("log_every", spec.log_every(), 1);
    CheckAbove("collective_timeout_s", spec.collective_timeout_s(), 0);
    for (int i = 0; i < spec.faults_size(); ++i) {
      CheckFault(StrCat("faults[", i, "]."), spec.faults(i), spec);
    }
    return std::move(problems_);
  }

 private:
  void Add(std::string field, std::string message) {
    problems_.push_back({std::move(field), std::move(message)});
  }

  void CheckRange(const std::string& field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      Add(field, StrCat("is ", value, "; allowed is ", low, " to ", high));
    }
  }

  void CheckAtLeast(const std::string& field, int64_t value, int64_t low) {
    if (value < low) Add(field, StrCat("is ", value, "; allowed is ", low, " and more"));
  }

  // Infinite values and NaN lie in no range.
  void CheckFiniteAtLeast(const std::string& field, double value, double low) {
    if (!(std::isfinite(value) && value >= low)) {
      Add(field, StrCat("is ", value, "; allowed is ", low, " and more"));
    }
  }

  void CheckAbove(const std::string& field, double value, double low) {
    if (!(std::isfinite(value) && value > low)) {
      Add(field, StrCat("is ", value, "; allowed is more than ", low));
    }
  }

  void CheckShare(const std::string& field, double value, bool zero, bool one) {
    const bool inside = value > 0 && value < 1;
    if (inside || (zero && value == 0) || (one && value == 1)) return;
    Add(field, StrCat("is ", value, "; allowed is ", zero ? "0 <= " : "0 < ", "x",
                      one ? " <= 1" : " < 1"));
  }

  void CheckEnum(const std::string& field, int value, bool valid, const std::string& allowed) {
    if (!valid) Add(field, StrCat("is the unknown number ", value, "; allowed is ", allowed));
  }

  void CheckName(const std::string& name) {
    constexpr char kAllowed[] =
        "allowed are 1 to 63 lower-case letters, digits and hyphens, a letter first";
    if (name.empty()) {
      Add("name", StrCat("is missing; ", kAllowed));
      return;
    }
    bool sound = name.size() <= 63 && absl::ascii_islower(name[0]);
    for (const char c : name) {
      sound = sound && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
    }
    if (sound) return;
    Add("name",
        StrCat("is \"", absl::Utf8SafeCHexEscape(Beginning(name, 80)), "\"",
               name.size() > 63 ? StrCat(" of ", name.size(), " characters") : "", "; ", kAllowed));
  }

  void CheckModel(const v1::Model& model) {
    if (model.kind_case() == v1::Model::KIND_NOT_SET) {
      Add("model.kind", "is missing; allowed is resnet18 or mlp");
    }
    for (int i = 0; i < model.mlp().hidden_size(); ++i) {
      CheckRange(StrCat("model.mlp.hidden[", i, "]"), model.mlp().hidden(i), 1, INT32_MAX);
    }
  }

  void CheckData(const v1::Data& data) {
    if (data.train().empty()) {
      Add("data.train", "is missing; give the image-shard file with the training samples");
    }
    CheckEnum("data.order", data.order(), v1::DataOrder_IsValid(data.order()),
              "shuffle or sequential");
  }

  void CheckOptimizer(const v1::Optimizer& optimizer) {
    if (optimizer.kind_case() == v1::Optimizer::KIND_NOT_SET) {
      Add("optimizer.kind", "is missing; allowed is sgd or adamw");
    }
    if (optimizer.has_sgd()) {
      CheckShare("optimizer.sgd.momentum", optimizer.sgd().momentum(), true, false);
      if (optimizer.sgd().nesterov() && optimizer.sgd().momentum() == 0) {
        Add("optimizer.sgd.nesterov", "is true without momentum; give a momentum above 0 too");
      }
    }
    if (optimizer.has_adamw()) {
      CheckShare("optimizer.adamw.beta1", optimizer.adamw().beta1(), true, false);
      CheckShare("optimizer.adamw.beta2", optimizer.adamw().beta2(), true, false);
      CheckAbove("optimizer.adamw.epsilon", optimizer.adamw().epsilon(), 0);
    }
    if (optimizer.learning_rate() == 0) {
      Add("optimizer.learning_rate", "is missing or 0; allowed is more than 0");
    } else {
      CheckAbove("optimizer.learning_rate", optimizer.learning_rate(), 0);
    }
    CheckFiniteAtLeast("optimizer.weight_decay", optimizer.weight_decay(), 0);
  }

  void CheckSchedule(const v1::Schedule& schedule, int64_t steps) {
    const int64_t warmup = schedule.warmup_steps();
    if (warmup < 0 || (steps > 0 && warmup >= steps)) {
      Add("schedule.warmup_steps",
          StrCat("is ", warmup, "; allowed is 0 and more, and less than steps",
                 steps > 0 ? StrCat(" (", steps, ")") : ""));
    }
    if (schedule.has_cosine()) {
      CheckShare("schedule.cosine.final_ratio", schedule.cosine().final_ratio(), true, true);
    }
    if (schedule.has_step()) {
      if (schedule.step().every() == 0) {
        Add("schedule.step.every",
            "is missing or 0; give the steps between two reductions, at least 1");
      } else {
        CheckAtLeast("schedule.step.every", schedule.step().every(), 1);
      }
      CheckShare("schedule.step.gamma", schedule.step().gamma(), false, true);
    }
  }

  void CheckEvaluation(const v1::JobSpec& spec) {
    const int64_t every = spec.evaluation().every();
    CheckAtLeast("evaluation.every", every, 0);
    if (every > 0 && spec.data().eval().empty()) {
      Add("evaluation.every",
          StrCat("is ", every, " but there is nothing to evaluate on; give data.eval too"));
    }
  }

  void CheckFault(const std::string& at, const v1::Fault& fault, const v1::JobSpec& spec) {
    if (fault.rank() < 0 || (spec.ranks() > 0 && fault.rank() >= spec.ranks())) {
      Add(StrCat(at, "rank"),
          StrCat("is ", fault.rank(), "; allowed is 0 to ranks - 1 (", spec.ranks() - 1, ")"));
    }
    if (fault.step() < 0 || (spec.steps() > 0 && fault.step() >= spec.steps())) {
      Add(StrCat(at, "step"),
          StrCat("is ", fault.step(), "; allowed is 0 to steps - 1 (", spec.steps() - 1, ")"));
    }
    constexpr char kKinds[] = "throw, abort, exit, out_of_memory or sleep";
    if (fault.kind() == v1::FAULT_KIND_UNSPECIFIED) {
      Add(StrCat(at, "kind"), StrCat("is missing; allowed is ", kKinds));
    }
    CheckEnum(StrCat(at, "kind"), fault.kind(), v1::FaultKind_IsValid(fault.kind()), kKinds);
    CheckFiniteAtLeast(StrCat(at, "seconds"), fault.seconds(), 0);
  }

  std::vector<SpecProblem> problems_;
};

}  // namespace

std::vector<SpecProblem> CheckJobSpec(const v1::JobSpec& spec) {
  v1::JobSpec filled = spec;
  FillDefaults(&filled);
  return SpecCheck().Run(filled);
}

}  // namespace paceline
