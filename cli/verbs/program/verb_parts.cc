#include "cli/verbs/program/verb_parts.h"

#include "common/uuid.h"

namespace paceline {

void Run(CLI::App& verb, Program& program, int (*run)(Program&)) {
  verb.callback([&program, run] { program.action = [&program, run] { return run(program); }; });
}

void AddJob(CLI::App& verb, std::string& job) {
  verb.add_option("JOB", job, "Id, unique beginning of an id, or name")->required();
}

void AddOwner(CLI::App& verb, Program& program) {
  verb.add_option("--owner", program.flags.owner,
                  "In whose name. Default: the name in your certificate, else $USER, else that of "
                  "your token");
}

void AddReason(CLI::App& verb, std::string& reason) {
  verb.add_option("--reason", reason, "Why, in one line; shown with the node")->required();
}

CLI::Option* AddRequestId(CLI::App& verb, std::string& id) {
  return verb.add_option("--request-id", id,
                         "Name of this request, such as a UUID. Default: a new one");
}

std::string RequestId(const std::string& flag) { return flag.empty() ? NewUuid() : flag; }

grpc::Status GetJob(Program& program, const std::string& name, v1::Job* job) {
  v1::GetJobRequest request;
  request.set_job(name);
  return program.client().Call(methods::kJobGet, request, job);
}

int TellAnswer(Program& program, const grpc::Status& status,
               const google::protobuf::Message& answer,
               const std::function<void(std::ostream& out)>& tell) {
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(answer);
  } else {
    tell(program.out());
    program.out() << std::flush;
  }
  return kCliOk;
}

}  // namespace paceline
