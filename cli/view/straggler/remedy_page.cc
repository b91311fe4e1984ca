#include "cli/view/straggler/remedy_page.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"
#include "cli/view/straggler/straggler_text.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/ladder_text.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

std::string ModeText(v1::StragglerMode mode) {
  const std::string name = EnumName(*v1::StragglerMode_descriptor(), mode);
  switch (mode) {
    case v1::STRAGGLER_MODE_OFF:
      return absl::StrCat(name, ": nobody looks for stragglers");
    case v1::STRAGGLER_MODE_ADVISE:
      return absl::StrCat(name, ": a person decides what is done");
    case v1::STRAGGLER_MODE_AUTO:
      return absl::StrCat(name, ": what is advised is done, unless a brake is on");
    default:
      return name;
  }
}

std::string StepsText(const v1::JobAdvice& advice) {
  if (advice.steps_seen() == 0) return "none seen yet";
  return absl::StrJoin({absl::StrCat(advice.steps_seen(), " seen"),
                        advice.step_s() > 0 ? absl::StrCat("the latest ", StepText(advice.step_s()))
                                            : std::string("all of them warm-up")},
                       ", ");
}

// Works for a LadderPlan or StrategyPlan.
template <typename Plan>
std::string StallsText(const Plan& plan) {
  if (plan.steps() == 0) return "";
  const std::string share =
      plan.stall_share() > 0
          ? absl::StrFormat("%.2g %% of a rank's steps, by %s", 100 * plan.stall_share(),
                            StepText(plan.mean_stall_s()))
          : "none";
  return absl::StrCat(share, "; ", StepText(plan.typical_s()), " are typical (", plan.steps(),
                      " steps)");
}

bool HasExchange(const v1::StragglerVerdict& verdict) { return verdict.has_exchange(); }

std::string SlowTable(const v1::JobAdvice& advice, const PageStyle& style) {
  Table table({{"RANK", true},
               {"NODE"},
               {"SINCE STEP", true},
               {"TIMES ITS PEERS", true},
               {"LOST", true},
               {"CAUSE"},
               {"EPISODES", true, true},
               {"VERDICT"}});
  for (const v1::StragglerVerdict& verdict : advice.stragglers()) {
    if (HasExchange(verdict)) continue;
    table.Add({verdict.rank() >= 0 ? absl::StrCat(verdict.rank()) : "", verdict.node(),
               absl::StrCat(verdict.since_step()), SlowdownText(verdict),
               PercentText(verdict.lost_share()), WordOf(verdict.cause()),
               absl::StrCat(verdict.episodes()), WordOf(verdict.kind())});
  }
  return table.Rendered(style.width, style.colours);
}

// "152 ms, 101 ms predicted (33 % shorter), 104 ms so far".
std::string SoFarText(const v1::RemedyDecision& decision) {
  if (decision.before_s() <= 0) return "";
  std::string text = StepText(decision.before_s());
  if (decision.predicted_s() > 0 && decision.kind() != v1::REMEDY_ASK_PERSON) {
    absl::StrAppend(&text, " before, ", StepText(decision.predicted_s()), " predicted (",
                    GainText(decision.before_s(), decision.predicted_s()), ")");
  }
  if (decision.measured_s() > 0) {
    absl::StrAppend(&text, ", ", StepText(decision.measured_s()), " so far");
  }
  return text;
}

// Whether a person decides outside of `paceline job apply`.
bool IsForPeople(const v1::RemedyDecision& decision) {
  return decision.kind() == v1::REMEDY_ASK_PERSON || decision.kind() == v1::REMEDY_OUTER_STEP;
}

void AddDecision(std::string* page, const v1::RemedyDecision& decision, const std::string& job,
                 int width) {
  constexpr char kMargin[] = "     ";
  absl::StrAppend(page, absl::StrFormat("%3d", decision.id()), "  ",
                  SanitizeLine(decision.summary()), "\n");
  const auto add = [&](absl::string_view label, absl::string_view value) {
    AddParagraph(page, kMargin, label, value, width);
  };
  add("Why", decision.reason());
  if (decision.cost_s() > 0) add("Cost", absl::StrCat(StepText(decision.cost_s()), ", once"));
  add("Step", SoFarText(decision));
  add("By", OwnerText(decision));
  const bool applies = decision.state() == v1::DECISION_ADVISED;
  if (applies && !IsForPeople(decision)) {
    absl::StrAppend(page, kMargin, "Do it:      paceline job apply ", SanitizeLine(job), " ",
                    decision.id(), "\n");
  }
}

void AddDecisions(std::string* page, absl::string_view heading, const v1::JobAdvice& advice,
                  const std::string& job, int width,
                  const std::function<bool(const v1::RemedyDecision&)>& belongs) {
  bool is_first = true;
  for (const v1::RemedyDecision& decision : advice.decisions()) {
    if (!belongs(decision)) continue;
    if (is_first) absl::StrAppend(page, "\n", heading, ":\n");
    is_first = false;
    AddDecision(page, decision, job, width);
  }
}

std::string SlowText(const v1::JobAdvice& advice, const PageStyle& style) {
  const auto& slow = advice.stragglers();
  if (!std::all_of(slow.begin(), slow.end(), HasExchange)) {
    return absl::StrCat("Slow now:\n", SlowTable(advice, style));
  }
  return advice.steps_seen() == 0 ? "" : "No rank is slow.\n";
}

std::string ExchangesText(const v1::JobAdvice& advice, int width) {
  std::string text;
  for (const v1::StragglerVerdict& verdict : advice.stragglers()) {
    if (!HasExchange(verdict)) continue;
    AddParagraph(&text, "", WordOf(verdict.kind()), ExchangeText(verdict), width);
  }
  return text.empty() ? "" : absl::StrCat("Slow exchanges, which no remedy would mend:\n", text);
}

// "generation 2, plan version 3, step 330".
std::string StateText(int64_t generation, int64_t plan_version) {
  return absl::StrCat("generation ", generation, ", plan version ", plan_version);
}

bool IsAboutOne(const v1::StragglerVerdict& verdict) {
  return verdict.rank() >= 0 || verdict.kind() == v1::VERDICT_NODE;
}

std::string VerdictText(const v1::StragglerVerdict& verdict) {
  std::string text = absl::StrCat(
      WordOf(verdict.kind()), " since step ", verdict.since_step(), ": ", SlowdownText(verdict),
      IsAboutOne(verdict) ? " times its peers, by " : " times as before, by ",
      WordOf(verdict.cause()), "; ", PercentText(verdict.lost_share()), " of the job's time lost");
  if (verdict.episodes() > 1) absl::StrAppend(&text, "; slow ", verdict.episodes(), " times");
  return text;
}

std::string CostText(const v1::RemedyDecision& decision) {
  std::vector<std::string> parts;
  if (decision.cost_s() > 0) {
    parts.push_back(absl::StrCat(StepText(decision.cost_s()), " expected"));
  }
  if (decision.paid_s() > 0) parts.push_back(absl::StrCat(StepText(decision.paid_s()), " paid"));
  return absl::StrJoin(parts, ", ");
}

std::string StepLine(const v1::RemedyDecision& decision) {
  std::vector<std::string> parts;
  const auto add = [&](double seconds, absl::string_view what) {
    if (seconds <= 0) return;
    const std::string gain =
        parts.empty() ? "" : absl::StrCat(" (", GainText(decision.before_s(), seconds), ")");
    parts.push_back(absl::StrCat(StepText(seconds), " ", what, gain));
  };
  add(decision.before_s(), absl::StrFormat("before (+-%.2g ms)", 1000 * decision.before_error_s()));
  if (decision.kind() != v1::REMEDY_ASK_PERSON) add(decision.predicted_s(), "predicted");
  add(decision.measured_s(), "measured");
  add(decision.without_s(), "without it");
  return absl::StrJoin(parts, ", ");
}

std::string OptionTable(const v1::RemedyDecision& decision, const PageStyle& style) {
  Table table({{"REMEDY"}, {"COST", true}, {"STEP", true}, {"COST UNTIL THE END", true}});
  for (const v1::RemedyOption& option : decision.options()) {
    table.Add({WordOf(option.kind()), StepText(option.cost_s()), StepText(option.step_s()),
               DurationText(option.total_s())});
  }
  return table.Rendered(style.width, style.colours);
}

std::string LadderTable(const v1::LadderPlan& plan, const PageStyle& style) {
  Table table({{"LADDER"},
               {"STEP", true},
               {"COMMUNICATION", true},
               {"SPEED-UP", true},
               {"EQUIVALENT PERIOD", true}});
  const auto add = [&](const v1::LadderPrediction& prediction, absl::string_view note) {
    table.Add({absl::StrCat(LadderText(prediction.ladder()), note), StepText(prediction.step_s()),
               StepText(prediction.communication_s()),
               absl::StrFormat("%.2f", prediction.speedup()),
               absl::StrFormat("%.2f", prediction.equivalent_period())});
  };
  add(plan.current(), " (current)");
  if (!plan.current().ladder().empty()) add(plan.synchronous(), "");
  for (const v1::LadderPrediction& candidate : plan.candidates()) add(candidate, "");
  return table.Rendered(style.width, style.colours);
}

std::string StrategyTable(const v1::StrategyPlan& plan, const PageStyle& style) {
  Table table(
      {{"STRATEGY"}, {"STEP", true}, {"OF THE IDEAL", true}, {"WINDOW", true}, {"USED", true}});
  const auto add = [&](const v1::StrategyPrediction& prediction) {
    const bool is_ddp = prediction.mode() == v1::SLIPSTREAM_UNSPECIFIED;
    std::string name =
        is_ddp ? "ddp" : EnumName(*v1::SlipstreamMode_descriptor(), prediction.mode());
    if (prediction.mode() == plan.current().mode()) absl::StrAppend(&name, " (current)");
    table.Add(
        {name, StepText(prediction.step_s()), PercentText(prediction.share()),
         prediction.window_steps() > 0 ? absl::StrFormat("%.1f", prediction.window_steps()) : "",
         PercentText(prediction.used())});
  };
  add(plan.ddp());
  for (const v1::StrategyPrediction& prediction : plan.slipstream()) add(prediction);
  return table.Rendered(style.width, style.colours);
}

std::string StrategyChangeText(const v1::RemedyDecision& decision) {
  if (decision.kind() != v1::REMEDY_STRATEGY) return "";
  return absl::StrCat(StrategyText(decision.strategy()), " instead of ",
                      StrategyText(decision.former_strategy()));
}

std::string LadderChangeText(const v1::RemedyDecision& decision) {
  if (decision.kind() != v1::REMEDY_LADDER) return "";
  return absl::StrCat(LadderText(decision.ladder()), " instead of ", LadderText(decision.former()));
}

}  // namespace

std::string AdvicePage(const v1::JobAdvice& advice, const std::string& job,
                       const PageStyle& style) {
  std::string page;
  const auto add = [&](absl::string_view label, absl::string_view value) {
    AddParagraph(&page, "", label, value, style.width);
  };
  add("Mode", ModeText(advice.mode()));
  add("Brake", advice.brake());
  if (advice.mode() == v1::STRAGGLER_MODE_OFF) return page;
  add("Steps", StepsText(advice));
  if (!advice.unjudged_ranks().empty()) {
    add("Not judged", absl::StrCat(advice.unjudged_ranks_size() == 1 ? "rank " : "ranks ",
                                   absl::StrJoin(advice.unjudged_ranks(), ", "),
                                   ": too few peers on the same hardware"));
  }
  add("Ladder", advice.plan().reason());
  add("Strategy", advice.strategy_plan().reason());
  add("Stalls",
      advice.has_strategy_plan() ? StallsText(advice.strategy_plan()) : StallsText(advice.plan()));
  for (const std::string& slow : {SlowText(advice, style), ExchangesText(advice, style.width)}) {
    if (!slow.empty()) absl::StrAppend(&page, "\n", slow);
  }

  const auto has_state = [](v1::DecisionState state) {
    return [state](const v1::RemedyDecision& decision) { return decision.state() == state; };
  };
  enum class For { kJob, kDecision, kKnowledge };
  const auto is_advice = [](For use) {
    return [use](const v1::RemedyDecision& decision) {
      const bool reported = decision.verdict().kind() == v1::VERDICT_GROUP;
      const For its = !IsForPeople(decision) ? For::kJob
                      : reported             ? For::kKnowledge
                                             : For::kDecision;
      return decision.state() == v1::DECISION_ADVISED && its == use;
    };
  };
  AddDecisions(&page, "Under way", advice, job, style.width, has_state(v1::DECISION_ORDERED));
  AddDecisions(&page, "Being checked", advice, job, style.width, has_state(v1::DECISION_CHECKING));
  AddDecisions(&page, "Advice", advice, job, style.width, is_advice(For::kJob));
  AddDecisions(&page, "For a person to decide", advice, job, style.width,
               is_advice(For::kDecision));
  AddDecisions(&page, "Reported, nothing to decide", advice, job, style.width,
               is_advice(For::kKnowledge));
  return page;
}

std::string DecisionTable(const v1::ListDecisionsResponse& decisions, absl::Time now,
                          const PageStyle& style) {
  Table table({{"ID", true},
               {"AGO", true},
               {"WHAT"},
               {"STATE"},
               {"BY", false, true},
               {"PREDICTED", true, true},
               {"MEASURED", true, true},
               {"OUTCOME"}});
  for (const v1::RemedyDecision& decision : decisions.decisions()) {
    const double age = absl::ToDoubleSeconds(now - TimeOf(true, decision.time()));
    const bool is_asked = decision.kind() == v1::REMEDY_ASK_PERSON;
    table.Add({absl::StrCat(decision.id()),
               DurationText(age),
               decision.summary(),
               {WordOf(decision.state()), StateColour(decision.state())},
               OwnerText(decision),
               is_asked ? "" : StepText(decision.predicted_s()),
               StepText(decision.measured_s()),
               decision.outcome()});
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

std::string DecisionLine(const v1::RemedyDecision& decision, const PageStyle& style) {
  const std::string owner = OwnerText(decision);
  return absl::StrCat(
      "advice ", decision.id(), " is ",
      Painted(WordOf(decision.state()), StateColour(decision.state()), style.colours),
      owner.empty() ? "" : absl::StrCat(" by ", owner), ": ", SanitizeLine(decision.summary()));
}

std::string DecisionPage(const v1::RemedyDecision& decision, absl::Time now,
                         const PageStyle& style) {
  std::string page;
  const auto add = [&](absl::string_view label, absl::string_view value) {
    AddParagraph(&page, "", label, value, style.width);
  };
  add("Decision", absl::StrCat(decision.id()));
  add("What", decision.summary());
  AddLine(&page, "State",
          Painted(WordOf(decision.state()), StateColour(decision.state()), style.colours));
  add("By", OwnerText(decision));
  add("Advised", MomentText(TimeOf(decision.has_time(), decision.time()), now));
  if (decision.has_end_time()) add("Ended", MomentText(TimeOf(true, decision.end_time()), now));
  add("Why", decision.reason());
  add("At", absl::StrCat(StateText(decision.generation(), decision.plan_version()), ", step ",
                         decision.step()));
  if (decision.has_verdict() && decision.verdict().slowdown() != 1) {
    add("Verdict", VerdictText(decision.verdict()));
  }
  if (decision.lost_s() > 0) {
    add("Lost", absl::StrCat(StepText(decision.lost_s()), " until it was advised"));
  }
  add("Ladder", LadderChangeText(decision));
  add("Strategy", StrategyChangeText(decision));
  add("Cost", CostText(decision));
  add("Step", StepLine(decision));
  if (decision.done_generation() > 0) {
    add("Done in", StateText(decision.done_generation(), decision.done_plan_version()));
  }
  add("Outcome", decision.outcome());
  if (!decision.options().empty()) {
    absl::StrAppend(&page, "\nWhat could be done:\n", OptionTable(decision, style));
  }
  if (decision.has_plan()) {
    absl::StrAppend(&page, "\nLadders, as predicted:\n", LadderTable(decision.plan(), style));
  }
  if (decision.has_strategy_plan()) {
    absl::StrAppend(&page, "\nStrategies, as predicted:\n",
                    StrategyTable(decision.strategy_plan(), style));
  }
  return page;
}

}  // namespace paceline
