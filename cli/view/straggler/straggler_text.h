// Describes stragglers and decisions about them. Text from elsewhere is sanitized.
#ifndef CLI_VIEW_STRAGGLER_STRAGGLER_TEXT_H_
#define CLI_VIEW_STRAGGLER_STRAGGLER_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/text/style.h"
#include "proto/straggler.pb.h"

namespace paceline {

// "persistent", "host pause", "hot-swap", "did not help".
std::string WordOf(v1::VerdictKind kind);
std::string WordOf(v1::StragglerCause cause);
std::string WordOf(v1::RemedyKind kind);
std::string WordOf(v1::DecisionState state);

Colour StateColour(v1::DecisionState state);

// Duration of a step, to three digits: "96.4 ms", "1.52 s". Empty for 0, which means not known.
std::string StepText(double seconds);

// "1.52 (1.50-1.54)": ratio to its peers, with the interval.
std::string SlowdownText(const v1::StragglerVerdict& verdict);

// "ranks 8-11 (level 2): transfers take 1.42 x (1.40-1.44) as long as those of other groups since
// step 320, 3.1 % of the job's time; rank 9 comes last in 93 % of them". Requires: has_exchange().
std::string ExchangeText(const v1::StragglerVerdict& verdict);

// "33 % shorter", "5 % longer", "as long"; empty if one of the two is not known.
std::string GainText(double before_s, double after_s);

// Who ordered it: a name, or "automation"; empty: nobody.
std::string OwnerText(const v1::RemedyDecision& decision);

// Whether it is neither finished nor given up.
bool IsOpen(const v1::RemedyDecision& decision);

// As AddLine (page.h), but after `margin`, and wrapped between words to lines of at most `width`
// columns; 0: unlimited. `value` is sanitized.
void AddParagraph(std::string* page, absl::string_view margin, absl::string_view label,
                  absl::string_view value, int width);

}  // namespace paceline

#endif  // CLI_VIEW_STRAGGLER_STRAGGLER_TEXT_H_
