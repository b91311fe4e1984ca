// The levels of common/log.h on the wire, where the first value stands for none of them.
#ifndef COMMON_LOG_LEVEL_H_
#define COMMON_LOG_LEVEL_H_

#include "common/log.h"
#include "proto/log_level.pb.h"

namespace paceline {

inline v1::LogLevel ToProto(LogLevel level) {
  return static_cast<v1::LogLevel>(static_cast<int>(level) + 1);
}

// `otherwise` for none, and for a number that has no meaning here.
inline LogLevel FromProto(v1::LogLevel level, LogLevel otherwise) {
  const bool known = level >= v1::LOG_LEVEL_DEBUG && level <= v1::LOG_LEVEL_ERROR;
  return known ? static_cast<LogLevel>(level - 1) : otherwise;
}

}  // namespace paceline

#endif  // COMMON_LOG_LEVEL_H_
