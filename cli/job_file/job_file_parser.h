// The walk over a job file's YAML: known keys, types, and where everything stands. What
// values may be is judged afterwards, by common/job_spec.
//
// Thread-compatible.
#ifndef CLI_JOB_FILE_JOB_FILE_PARSER_H_
#define CLI_JOB_FILE_JOB_FILE_PARSER_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "cli/job_file/job_fields.h"
#include "cli/job_file/job_file.h"
#include "cli/job_file/job_keys.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

namespace paceline {

class JobFileParser {
 public:
  // `file` receives spec, positions and problems, and outlives the parser.
  JobFileParser(std::string folder, JobFile* file) : folder_(std::move(folder)), file_(file) {}

  void Parse(const YAML::Node& document);

  // Keys about which a problem has been reported, so that none needs to be reported again.
  const std::set<std::string>& broken() const { return broken_; }

 private:
  struct Entry {
    YAML::Node key;
    YAML::Node value;
  };

  void ParseGroup(const YAML::Node& node, const std::string& path,
                  google::protobuf::Message* group);
  // The group's entries by key; tells unknown and repeated keys.
  std::map<std::string, Entry> Entries(const YAML::Node& node, const std::string& path);
  void TellUnknown(const YAML::Node& key, const std::string& group);
  void ParseGroups(const YAML::Node& node, const std::string& path,
                   const google::protobuf::FieldDescriptor& field,
                   google::protobuf::Message* parent);
  void ParseKey(const JobKey& key, const std::string& path, const YAML::Node& value,
                google::protobuf::Message* group);
  void ParseChoice(const KeyField& field, const std::string& path, const YAML::Node& value,
                   google::protobuf::Message* group);
  // The message that holds `field`; null, with a problem told, when another kind is chosen.
  google::protobuf::Message* Holder(const KeyField& field, const std::string& path,
                                    google::protobuf::Message* group);
  void ParseInteger(const JobKey& key, const std::string& path, const YAML::Node& value,
                    const google::protobuf::FieldDescriptor& field,
                    google::protobuf::Message* holder);
  void ParseNumber(const JobKey& key, const std::string& path, const YAML::Node& value,
                   const google::protobuf::FieldDescriptor& field,
                   google::protobuf::Message* holder);
  void ParseText(const JobKey& key, const std::string& path, const YAML::Node& value,
                 const google::protobuf::FieldDescriptor& field, google::protobuf::Message* holder);
  void ParseTexts(const JobKey& key, const std::string& path, const YAML::Node& value,
                  const google::protobuf::FieldDescriptor& field,
                  google::protobuf::Message* holder);
  void ParseLabels(const JobKey& key, const std::string& path, const YAML::Node& value,
                   const google::protobuf::FieldDescriptor& field,
                   google::protobuf::Message* holder);
  // False, with a problem told, unless `value` is a single value that is there.
  bool CheckScalar(const JobKey& key, const std::string& path, const YAML::Node& value);

  void Tell(const YAML::Node& node, const std::string& message);
  // Tells it at the key's position and remembers the key as broken.
  void TellAt(const std::string& path, const std::string& message);

  const std::string folder_;
  JobFile* const file_;
  std::set<std::string> broken_;
};

}  // namespace paceline

#endif  // CLI_JOB_FILE_JOB_FILE_PARSER_H_
