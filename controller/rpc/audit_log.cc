// The file of the audit record.
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "controller/rpc/audit.h"

namespace paceline {
namespace {

class RotatingAuditLog : public AuditLog {
 public:
  explicit RotatingAuditLog(std::shared_ptr<spdlog::sinks::sink> file)
      : logger_("audit", std::move(file)) {
    logger_.set_pattern("%v");
    logger_.flush_on(spdlog::level::info);
    logger_.set_error_handler([](const std::string& error) {
      PACELINE_LOG(ERROR) << "audit_record_lost reason=\"" << error << "\"";
    });
  }

  void Write(const std::string& line) override { logger_.info("{}", line); }

 private:
  spdlog::logger logger_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  try {
    return std::make_unique<RotatingAuditLog>(
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kMaxBytes, kOldFiles));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write the audit record ", path, ": ", error.what()));
  }
}

}  // namespace paceline
