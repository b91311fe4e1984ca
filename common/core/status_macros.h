// Early return on error; this release of Abseil has no macros for it.
#ifndef COMMON_CORE_STATUS_MACROS_H_
#define COMMON_CORE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define PACELINE_RETURN_IF_ERROR(expr)                 \
  do {                                                 \
    ::absl::Status paceline_status = (expr);           \
    if (!paceline_status.ok()) return paceline_status; \
  } while (false)

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

// PACELINE_ASSIGN_OR_RETURN(Type name, Fallible());
#define PACELINE_ASSIGN_OR_RETURN(lhs, expr) \
  PACELINE_ASSIGN_OR_RETURN_IMPL(PACELINE_CONCAT(paceline_result_, __LINE__), lhs, expr)
#define PACELINE_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) return std::move(result).status();    \
  lhs = *std::move(result)

#endif  // COMMON_CORE_STATUS_MACROS_H_
