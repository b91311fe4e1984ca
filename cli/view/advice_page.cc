#include "cli/view/advice_page.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/text/neutral.h"
#include "cli/text/table.h"
#include "cli/view/numbers.h"
#include "cli/view/straggler_text.h"
#include "common/job_spec/enum_name.h"

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

// Of a LadderPlan or StrategyPlan.
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
std::string StepLine(const v1::RemedyDecision& decision) {
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

void AddDecision(std::string* page, const v1::RemedyDecision& decision, const std::string& job,
                 int width) {
  constexpr char kMargin[] = "     ";
  absl::StrAppend(page, absl::StrFormat("%3d", decision.id()), "  ",
                  NeutralLine(decision.summary()), "\n");
  const auto add = [&](absl::string_view label, absl::string_view value) {
    AddParagraph(page, kMargin, label, value, width);
  };
  add("Why", decision.reason());
  if (decision.cost_s() > 0) add("Cost", absl::StrCat(StepText(decision.cost_s()), ", once"));
  add("Step", StepLine(decision));
  add("By", OwnerText(decision));
  const bool applies = decision.state() == v1::DECISION_ADVISED;
  if (applies && decision.kind() != v1::REMEDY_ASK_PERSON) {
    absl::StrAppend(page, kMargin, "Do it:      paceline job apply ", NeutralLine(job), " ",
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
  const auto is_advice = [](bool for_people) {
    return [for_people](const v1::RemedyDecision& decision) {
      return decision.state() == v1::DECISION_ADVISED &&
             (decision.kind() == v1::REMEDY_ASK_PERSON) == for_people;
    };
  };
  AddDecisions(&page, "Under way", advice, job, style.width, has_state(v1::DECISION_ORDERED));
  AddDecisions(&page, "Being checked", advice, job, style.width, has_state(v1::DECISION_CHECKING));
  AddDecisions(&page, "Advice", advice, job, style.width, is_advice(false));
  AddDecisions(&page, "For a person to decide", advice, job, style.width, is_advice(true));
  return page;
}

}  // namespace paceline
