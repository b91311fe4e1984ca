#include "controller/core/stragglers/remedy/remedy.h"

#include "absl/strings/str_cat.h"

namespace paceline {

const char* NameOf(RemedyKind kind) {
  switch (kind) {
    case RemedyKind::kLadder:
      return "LADDER";
    case RemedyKind::kHotSwap:
      return "HOT_SWAP";
    case RemedyKind::kDrain:
      return "DRAIN";
    case RemedyKind::kShrink:
      return "SHRINK";
    case RemedyKind::kAskPerson:
      return "ASK_PERSON";
    case RemedyKind::kStrategy:
      return "STRATEGY";
    case RemedyKind::kOuterStep:
      return "OUTER_STEP";
  }
  return "";
}

const char* NameOf(DecisionState state) {
  switch (state) {
    case DecisionState::kAdvised:
      return "ADVISED";
    case DecisionState::kOrdered:
      return "ORDERED";
    case DecisionState::kChecking:
      return "CHECKING";
    case DecisionState::kHelped:
      return "HELPED";
    case DecisionState::kDidNotHelp:
      return "DID_NOT_HELP";
    case DecisionState::kUnchecked:
      return "UNCHECKED";
    case DecisionState::kDone:
      return "DONE";
    case DecisionState::kFailed:
      return "FAILED";
    case DecisionState::kWithdrawn:
      return "WITHDRAWN";
  }
  return "";
}

std::string DescribeRemedy(const RemedyDecision& decision) {
  const std::string node = decision.node.value();
  std::string text;
  switch (decision.kind) {
    case RemedyKind::kLadder:
      text = absl::StrCat("ladder ", DescribeLadder(decision.ladder));
      break;
    case RemedyKind::kHotSwap:
      text = absl::StrCat("hot-swap of rank ", decision.rank, " on ", node);
      break;
    case RemedyKind::kDrain:
      text = absl::StrCat(decision.undoes > 0 ? "resume of " : "drain of ", node);
      break;
    case RemedyKind::kShrink:
      text = absl::StrCat("training on without rank ", decision.rank, " on ", node);
      break;
    case RemedyKind::kAskPerson:
      text = decision.verdict.kind == VerdictKind::kGroup ? "reported: a whole group is slow"
                                                          : "a person is needed";
      break;
    case RemedyKind::kStrategy:
      text = absl::StrCat("strategy ", DescribeStrategy(decision.strategy));
      break;
    case RemedyKind::kOuterStep:
      text = absl::StrCat("outer steps: ", DescribeLadder(decision.ladder));
      break;
  }
  return decision.undoes > 0 ? absl::StrCat("undo of decision ", decision.undoes, ": ", text)
                             : text;
}

}  // namespace paceline
