// What values a flag takes, with messages that say so: "--ranks: 0 is not allowed; give a whole
// number of at least 1".
#ifndef CLI_VERBS_PROGRAM_VALUE_CHECK_H_
#define CLI_VERBS_PROGRAM_VALUE_CHECK_H_

#include <cstdint>
#include <limits>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"

namespace paceline {

// `most`: no larger than what the flag's type holds.
CLI::Validator WholeNumber(int64_t least, int64_t most = std::numeric_limits<int32_t>::max());
CLI::Validator Number(double least, double most = std::numeric_limits<double>::infinity());

// Turns time spans, seconds or "10m", "1h30m", "500ms", into seconds.
CLI::Validator Seconds(double least, double most = std::numeric_limits<double>::infinity());

// A path that is meant as it is written: without what only a shell replaces.
CLI::Validator PlainPath();

// Turns sizes such as "500MB" into bytes, of a uint64_t and more than 0. Letters may be of either
// case.
CLI::Validator Size();

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_VALUE_CHECK_H_
