#include "controller/api/audit/audit.h"

#include <grpcpp/server_context.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/job_spec/enum_name.h"
#include "common/log.h"
#include "controller/api/admission/caller.h"

namespace paceline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::ordered_json;

constexpr size_t kMaxTextBytes = 512;
constexpr int kMaxListed = 32;

std::string Cut(const std::string& text) {
  if (text.size() <= kMaxTextBytes) return text;
  return absl::StrCat(text.substr(0, kMaxTextBytes), "... (", text.size(), " bytes)");
}

// Value of a plain field as JSON; `index` -1: the field is not repeated.
ordered_json ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const google::protobuf::Reflection& get = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Cut(one ? get.GetString(message, &field)
                     : get.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? get.GetBool(message, &field) : get.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? get.GetInt32(message, &field) : get.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? get.GetInt64(message, &field) : get.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? get.GetUInt32(message, &field) : get.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? get.GetUInt64(message, &field) : get.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? get.GetDouble(message, &field) : get.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? get.GetFloat(message, &field) : get.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value =
          one ? get.GetEnum(message, &field) : get.GetRepeatedEnum(message, &field, index);
      return ShortEnumName(*field.enum_type(), value->number());
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return nullptr;
}

// Name of a message within the request, if it has one.
ordered_json NameOf(const Message& message) {
  const FieldDescriptor* name = message.GetDescriptor()->FindFieldByName("name");
  if (name == nullptr || name->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return nullptr;
  return {{"name", ValueOf(message, *name, -1)}};
}

ordered_json ListOf(const Message& message, const FieldDescriptor& field) {
  ordered_json list = ordered_json::array();
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < std::min(size, kMaxListed); ++i) list.push_back(ValueOf(message, field, i));
  if (size > kMaxListed) list.push_back(absl::StrCat("... (", size, ")"));
  return list;
}

std::string Dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Budget shared by all calls. Thread-safe.
class SharedBudget {
 public:
  bool Take(const Principal& caller, absl::Time now) {
    absl::MutexLock lock(&mutex_);
    return budget_.Take(caller, now);
  }

 private:
  absl::Mutex mutex_;
  AuditBudget budget_ ABSL_GUARDED_BY(mutex_);
};

// Records one call.
class AuditInterceptor : public grpc::experimental::Interceptor {
 public:
  AuditInterceptor(grpc::experimental::ServerRpcInfo* info, AuditLog* log, SharedBudget* budget)
      : info_(info), log_(log), budget_(budget) {
    record_.time = absl::Now();
    record_.method = info->method();
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      const auto* request = static_cast<const Message*>(methods->GetRecvMessage());
      if (request != nullptr && IsAudited(*request->GetDescriptor())) {
        audited_ = true;
        record_.request = AuditedRequest(*request);
        record_.peer = info_->server_context()->peer();
      }
    }
    if (audited_ && methods->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      // Only known once the call has reached its handler.
      record_.caller = CallerOf(*info_->server_context());
      record_.status = methods->GetSendStatus();
      record_.took = absl::Now() - record_.time;
      if (!IsCheap(record_) || budget_->Take(record_.caller, absl::Now())) {
        log_->Write(AuditLine(record_));
      }
    }
    methods->Proceed();
  }

 private:
  grpc::experimental::ServerRpcInfo* const info_;
  AuditLog* const log_;
  SharedBudget* const budget_;
  AuditRecord record_;
  bool audited_ = false;
};

class AuditInterceptors : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit AuditInterceptors(AuditLog* log) : log_(log) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    // Streams change nothing. Messages sent on watches and by gRPC's own services arrive here as
    // bytes.
    if (info->type() != grpc::experimental::ServerRpcInfo::Type::UNARY ||
        !absl::StartsWith(info->method(), "/paceline.")) {
      return nullptr;
    }
    return new AuditInterceptor(info, log_, &budget_);
  }

 private:
  AuditLog* const log_;
  SharedBudget budget_;
};

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

bool IsCheap(const AuditRecord& record) {
  return !record.status.ok() &&
         (record.caller.role == Role::kNone ||
          record.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
}

bool IsAudited(const Descriptor& request) {
  return request.FindFieldByName("request_id") != nullptr ||
         request.FindFieldByName("csr_pem") != nullptr;
}

std::string AuditedRequest(const Message& request) {
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  ordered_json kept = ordered_json::object();
  for (const FieldDescriptor* field : fields) {
    if (field->name() == "token" || field->name() == "csr_pem") continue;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    ordered_json value;
    if (field->is_repeated()) {
      if (!is_message) value = ListOf(request, *field);
    } else if (is_message) {
      value = NameOf(request.GetReflection()->GetMessage(request, field));
    } else {
      value = ValueOf(request, *field, -1);
    }
    if (!value.is_null()) kept[field->name()] = std::move(value);
  }
  return Dump(kept);
}

std::string AuditLine(const AuditRecord& record) {
  ordered_json line = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", record.time, absl::UTCTimeZone())},
      {"method", Cut(record.method)}};
  if (!record.peer.empty()) line["peer"] = record.peer;
  if (!record.caller.name.empty()) line["user"] = Cut(record.caller.name);
  if (record.caller.role != Role::kNone) line["role"] = std::string(RoleName(record.caller.role));
  line["code"] =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(record.status.error_code()));
  line["took_ms"] = absl::ToDoubleMilliseconds(record.took);
  if (!record.status.ok()) line["message"] = Cut(record.status.error_message());
  line["request"] = ordered_json::parse(record.request);
  return Dump(line);
}

bool AuditBudget::Take(const Principal& caller, absl::Time now) {
  const int64_t second = absl::ToUnixSeconds(now);
  if (second != second_) {
    second_ = second;
    known_ = 0;
    strangers_ = 0;
  }
  int& taken = caller.role == Role::kNone ? strangers_ : known_;
  if (taken >= kRefusalsPerSecond) return false;
  ++taken;
  return true;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeAuditInterceptors(
    AuditLog* log) {
  return std::make_unique<AuditInterceptors>(log);
}

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
