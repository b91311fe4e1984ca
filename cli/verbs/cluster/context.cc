// paceline context add|use|list|show|remove
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/config/config_file.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/page.h"
#include "common/tls/tls_files.h"

namespace paceline {
namespace {

struct ContextFlags {
  std::string name;
  std::string server;
  bool use = false;
  bool none = false;
};

// Returns what overrides the current context in this shell; empty: nothing.
std::string OverruledBy(const Program& program) {
  for (const char* variable : {"PACELINE_SERVER", "PACELINE_CONTEXT"}) {
    const std::string value = program.Variable(variable);
    if (!value.empty()) return absl::StrCat("$", variable, "=", SanitizeLine(value));
  }
  return "";
}

int Write(Program& program, const CliConfig& config, const std::string& done) {
  const absl::Status written = WriteConfig(program.config_path(), config);
  if (!written.ok()) return program.Fail(written);
  program.out() << done << std::endl;
  return kCliOk;
}

// Sets the identity given by the flags. InvalidArgument if it is incomplete.
absl::Status SetIdentity(const GlobalFlags& flags, CliContext* context) {
  std::error_code error;
  context->plaintext = flags.plaintext;
  if (!flags.tls_dir.empty()) {
    const TlsFiles files = FilesIn(std::filesystem::absolute(flags.tls_dir, error).string());
    context->ca = files.ca;
    context->certificate = files.certificate;
    context->key = files.key;
  }
  if (flags.token_file.empty()) return absl::OkStatus();
  if (flags.tls_dir.empty()) {
    return absl::InvalidArgumentError(
        "a token is sent to a controller that proves who it is: name the folder of its cluster's "
        "ca.pem with --tls-dir");
  }
  context->certificate.clear();
  context->key.clear();
  context->token_file = std::filesystem::absolute(flags.token_file, error).string();
  return absl::OkStatus();
}

int Add(Program& program, const ContextFlags& flags) {
  CliContext context = {flags.server};
  absl::Status sound = CheckContextName(flags.name);
  if (sound.ok()) sound = CheckServerAddress(flags.server);
  if (sound.ok()) sound = SetIdentity(program.flags, &context);
  if (!sound.ok()) return program.Fail(sound);
  absl::StatusOr<CliConfig> config = ReadConfig(program.config_path());
  if (!config.ok()) return program.Fail(config.status());
  const bool known = config->contexts.count(flags.name) > 0;
  config->contexts[flags.name] = context;
  // The first context is the one that its owner wants to use.
  const bool use = flags.use || (!known && config->contexts.size() == 1);
  if (use) config->current = flags.name;
  const int exit = Write(program, *config,
                         absl::StrCat(known ? "changed" : "added", " context ", flags.name, ": ",
                                      flags.server, use ? ", in use from now on" : ""));
  if (exit == kCliOk && !use) {
    program.Note(absl::StrCat("next: paceline context use ", flags.name));
  }
  return exit;
}

int Use(Program& program, const ContextFlags& flags) {
  if (flags.name.empty() && !flags.none) {
    return program.Fail(kCliUsage, "name a context, or give --none");
  }
  absl::StatusOr<CliConfig> config = ReadConfig(program.config_path());
  if (!config.ok()) return program.Fail(config.status());
  std::string done = "no context is in use from now on";
  if (!flags.none) {
    const auto found = FindContext(*config, flags.name, program.config_path());
    if (!found.ok()) return program.Fail(found.status());
    done = absl::StrCat("context ", flags.name, " is in use from now on: ", found->server);
  }
  config->current = flags.none ? "" : flags.name;
  const int exit = Write(program, *config, done);
  const std::string overruled = OverruledBy(program);
  if (exit == kCliOk && !overruled.empty()) {
    program.Note(absl::StrCat("but ", overruled, " overrules it in this shell"));
  }
  return exit;
}

int Remove(Program& program, const ContextFlags& flags) {
  absl::StatusOr<CliConfig> config = ReadConfig(program.config_path());
  if (!config.ok()) return program.Fail(config.status());
  const auto found = FindContext(*config, flags.name, program.config_path());
  if (!found.ok()) return program.Fail(found.status());
  config->contexts.erase(flags.name);
  const bool was_current = config->current == flags.name;
  if (was_current) config->current.clear();
  return Write(program, *config,
               absl::StrCat("removed context ", flags.name,
                            was_current ? ", which was in use: no context is in use now" : ""));
}

int List(Program& program) {
  const absl::StatusOr<CliConfig> config = ReadConfig(program.config_path());
  if (!config.ok()) return program.Fail(config.status());
  if (program.json()) {
    nlohmann::ordered_json contexts = nlohmann::ordered_json::array();
    for (const auto& [name, context] : config->contexts) {
      contexts.push_back(
          {{"name", name}, {"server", context.server}, {"current", name == config->current}});
    }
    program.PrintJsonText(nlohmann::ordered_json{{"contexts", contexts}}.dump(1));
    return kCliOk;
  }
  if (program.names()) {
    for (const auto& [name, context] : config->contexts) program.out() << name << "\n";
    return kCliOk;
  }
  if (config->contexts.empty()) {
    program.Note("no contexts yet; `paceline context add NAME HOST[:PORT]` adds one");
    return kCliOk;
  }
  Table table({{"NAME"}, {"CURRENT"}, {"SERVER"}});
  for (const auto& [name, context] : config->contexts) {
    table.Add({name, name == config->current ? "yes" : "", context.server});
  }
  const PageStyle style = program.style();
  program.out() << table.Rendered(style.width, style.colours, style.headings) << std::flush;
  return kCliOk;
}

// Shows where commands in this shell go, and why.
int Show(Program& program) {
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  if (!choice.ok()) return program.Fail(choice.status());
  if (program.json()) {
    const nlohmann::ordered_json json = {{"server", choice->address},
                                         {"context", choice->context},
                                         {"config", program.config_path()},
                                         {"token_file", choice->token_file}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  std::string page;
  AddLine(&page, "Server", SanitizeLine(choice->address));
  AddLine(&page, "Context", choice->context.empty() ? "none" : SanitizeLine(choice->context));
  AddLine(&page, "Overruled", choice->context.empty() ? OverruledBy(program) : "");
  AddLine(&page, "File", SanitizeLine(program.config_path()));
  AddLine(&page, "Token file", SanitizeLine(choice->token_file));
  program.out() << page << std::flush;
  return kCliOk;
}

using Verb = int (*)(Program&, const ContextFlags&);

CLI::App* AddVerb(CLI::App& parent, Program& program, const std::string& name,
                  const std::string& what, const std::shared_ptr<ContextFlags>& flags, Verb run) {
  CLI::App* verb = parent.add_subcommand(name, what);
  verb->callback([flags, run, &program] {
    program.action = [flags, run, &program] { return run(program, *flags); };
  });
  return verb;
}

}  // namespace

void AddContextVerbs(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<ContextFlags>();
  CLI::App* add = AddVerb(parent, program, "add", "Add or change a context", flags, Add);
  add->add_option("NAME", flags->name, "1 to 64 letters, digits and . _ -")->required();
  add->add_option("SERVER", flags->server,
                  "Controller, HOST or HOST:PORT (7450); several with commas between them")
      ->required();
  add->footer("\n--tls-dir, --token-file or --plaintext are kept with it.");
  add->add_flag("--use", flags->use, "Use it from now on, as is the first one anyway");
  CLI::App* use =
      AddVerb(parent, program, "use", "Choose the context of later commands", flags, Use);
  CLI::Option* name = use->add_option("CONTEXT", flags->name, "Name of a context");
  use->add_flag("--none", flags->none, "None: the dev cluster, or 127.0.0.1:7450")->excludes(name);
  CLI::App* list = parent.add_subcommand("list", "List the contexts");
  list->callback([&program] { program.action = [&program] { return List(program); }; });
  CLI::App* show =
      parent.add_subcommand("show", "Show which controller commands go to, and what says so");
  show->callback([&program] { program.action = [&program] { return Show(program); }; });
  CLI::App* remove = AddVerb(parent, program, "remove", "Remove a context", flags, Remove);
  remove->add_option("CONTEXT", flags->name, "Name of a context")->required();
}

}  // namespace paceline
