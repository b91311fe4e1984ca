// Log lines on standard error: an event and its fields.
//
//   PACELINE_LOG(INFO) << "worker_connected node=" << name;
//
// INFO: state changes. WARNING: degraded but handled. ERROR: someone must act. Nothing per step or
// heartbeat above DEBUG. The prefix is needed because torch defines LOG.
//
// PACELINE_CHECK ends the process when one of our invariants is broken; it never checks outside
// input. Thread-safe.
#ifndef COMMON_LOG_H_
#define COMMON_LOG_H_

#include <sstream>

namespace paceline {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kFatal };

// Lines below `level` are dropped. Default: kInfo.
void SetLogLevel(LogLevel level);

// Collects one line and writes it when destroyed. kFatal aborts after that.
class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

}  // namespace paceline

#define PACELINE_LOG_DEBUG ::paceline::LogLevel::kDebug
#define PACELINE_LOG_INFO ::paceline::LogLevel::kInfo
#define PACELINE_LOG_WARNING ::paceline::LogLevel::kWarning
#define PACELINE_LOG_ERROR ::paceline::LogLevel::kError
#define PACELINE_LOG_FATAL ::paceline::LogLevel::kFatal
#define PACELINE_LOG(severity) \
  ::paceline::LogLine(PACELINE_LOG_##severity, __FILE__, __LINE__).stream()

#define PACELINE_CHECK(condition) \
  if (condition) {                \
  } else /* NOLINT */             \
    PACELINE_LOG(FATAL) << "check failed: " #condition " "

#endif  // COMMON_LOG_H_
