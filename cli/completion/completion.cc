#include "cli/completion/completion.h"

#include <algorithm>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

// Members of a choice, which CLI11 describes as "TEXT:{table,json}".
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos || end <= begin + 1) return {};
  return absl::StrSplit(type.substr(begin + 1, end - begin - 1), ',');
}

// Maps the name of a value in the tree of commands to a kind of names.
std::string KindOf(const std::string& name) {
  if (name == "JOB") return "jobs";
  if (name == "NODE" || name == "--node") return "nodes";
  if (name == "CHECKPOINT" || name == "--from") return "checkpoints";
  return name == "CONTEXT" || name == "--context" ? "contexts" : "";
}

CompletionArgument ArgumentOf(const CLI::Option& option) {
  CompletionArgument argument;
  argument.name = option.get_name(/*positional=*/true);
  argument.required = option.get_required();
  argument.many = option.get_items_expected_max() > 1;
  argument.choices = ChoicesOf(option);
  argument.kind = KindOf(argument.name);
  argument.what = option.get_description();
  return argument;
}

CompletionFlag FlagOf(const CLI::Option& option) {
  CompletionFlag flag;
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  flag.takes_value = option.get_items_expected_max() > 0;
  flag.choices = ChoicesOf(option);
  flag.kind = flag.names.empty() ? "" : KindOf(flag.names.front());
  flag.what = option.get_description();
  flag.standard = option.get_default_str();
  return flag;
}

void AddCommands(const CLI::App& app, const std::string& above,
                 const std::vector<CompletionFlag>& inherited,
                 std::vector<CompletionCommand>* commands) {
  CompletionCommand command;
  command.path = above.empty() ? app.get_name() : absl::StrCat(above, " ", app.get_name());
  command.what = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      command.arguments.push_back(ArgumentOf(*option));
    } else {
      command.flags.push_back(FlagOf(*option));
    }
  }
  command.own_flags = command.flags.size();
  std::vector<CompletionFlag> own = command.flags;
  for (const CompletionFlag& flag : inherited) {
    const bool shadowed = std::any_of(own.begin(), own.end(), [&](const CompletionFlag& mine) {
      return mine.names == flag.names;
    });
    if (!shadowed) command.flags.push_back(flag);
  }
  const std::vector<const CLI::App*> subcommands =
      app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  for (const CLI::App* sub : subcommands) command.subcommands.push_back(sub->get_name());
  const std::string path = command.path;
  const std::vector<CompletionFlag> flags = command.flags;
  commands->push_back(std::move(command));
  for (const CLI::App* sub : subcommands) AddCommands(*sub, path, flags, commands);
}

std::string FlagWords(const CompletionCommand& command) {
  std::vector<std::string> words;
  for (const CompletionFlag& flag : command.flags) {
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  }
  return absl::StrJoin(words, " ");
}

// Arms of a `case` for bash and zsh alike: from a path and the next word to the longer path; from a
// path to its words; from a path and a flag to the flag's values.
std::string StepArms(const std::vector<CompletionCommand>& commands) {
  std::vector<std::string> patterns;
  for (const CompletionCommand& command : commands) {
    for (const std::string& sub : command.subcommands) {
      patterns.push_back(absl::StrCat("'", command.path, " ", sub, "'"));
    }
  }
  return absl::StrCat("      ", absl::StrJoin(patterns, "|"), ") at=\"$at $word\" ;;\n");
}

std::string WordArms(const std::vector<CompletionCommand>& commands) {
  std::string arms;
  for (const CompletionCommand& command : commands) {
    std::vector<std::string> words = command.subcommands;
    std::string kind;
    if (!command.arguments.empty()) {
      words = command.arguments.front().choices;
      kind = command.arguments.front().kind;
    }
    absl::StrAppend(&arms, "    '", command.path, "') subs='", absl::StrJoin(words, " "),
                    "'; kind='", kind, "'; flags='", FlagWords(command), "' ;;\n");
  }
  return arms;
}

std::string ValueArms(const std::vector<CompletionCommand>& commands) {
  std::string arms;
  for (const CompletionCommand& command : commands) {
    for (const CompletionFlag& flag : command.flags) {
      if (!flag.takes_value) continue;
      for (const std::string& name : flag.names) {
        absl::StrAppend(&arms, "    '", command.path, " ", name, "') value=1; subs='",
                        absl::StrJoin(flag.choices, " "), "'; kind='", flag.kind, "' ;;\n");
      }
    }
  }
  return arms;
}

std::string FishQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// Arguments of `complete` for the flag.
std::string FishFlag(const CompletionFlag& flag) {
  std::string reported;
  for (const std::string& name : flag.names) {
    const bool wide = absl::StartsWith(name, "--");
    absl::StrAppend(&reported, wide ? " -l " : " -s ", name.substr(wide ? 2 : 1));
  }
  if (flag.takes_value) absl::StrAppend(&reported, " -r");
  if (!flag.choices.empty()) {
    absl::StrAppend(&reported, " -f -a ", FishQuoted(absl::StrJoin(flag.choices, " ")));
  } else if (!flag.kind.empty()) {
    absl::StrAppend(&reported, " -f -a ",
                    FishQuoted(absl::StrCat("(__paceline_names ", flag.kind, ")")));
  }
  absl::StrAppend(&reported, " -d ", FishQuoted(flag.what));
  return reported;
}

}  // namespace

std::vector<CompletionCommand> CompletionCommands(const CLI::App& root) {
  std::vector<CompletionCommand> commands;
  AddCommands(root, "", {}, &commands);
  return commands;
}

std::string BashCompletion(const std::vector<CompletionCommand>& commands) {
  return absl::StrCat(
      "# bash completion of paceline: source <(paceline completion bash)\n"
      "_paceline() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local at=paceline word i subs= flags= value= kind= context=\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    [[ $word == --context ]] && context=${COMP_WORDS[i+1]}\n"
      "    case \"$at $word\" in\n",
      StepArms(commands),
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n",
      WordArms(commands),
      "  esac\n"
      "  case \"$at $prev\" in\n",
      ValueArms(commands),
      "  esac\n"
      "  if [[ -z $value && $cur == -* ]]; then\n"
      "    subs=$flags\n"
      "  elif [[ -n $kind ]]; then\n"
      "    subs=$(paceline ${context:+--context \"$context\"} __names \"$kind\" 2>/dev/null) || "
      "true\n"
      "  fi\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$subs\" -- \"$cur\")\n"
      "}\n"
      "complete -o default -F _paceline paceline\n");
}

std::string ZshCompletion(const std::vector<CompletionCommand>& commands) {
  return absl::StrCat(
      "#compdef paceline\n"
      "# zsh completion of paceline: put it as _paceline into a folder of $fpath\n"
      "_paceline() {\n"
      "  local cur=$words[CURRENT] prev=$words[CURRENT-1]\n"
      "  local at=paceline word last= subs= flags= value= kind= context=\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    [[ $last == --context ]] && context=$word\n"
      "    last=$word\n"
      "    case \"$at $word\" in\n",
      StepArms(commands),
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n",
      WordArms(commands),
      "  esac\n"
      "  case \"$at $prev\" in\n",
      ValueArms(commands),
      "  esac\n"
      "  if [[ -z $value && $cur == -* ]]; then\n"
      "    subs=$flags\n"
      "  elif [[ -n $kind ]]; then\n"
      "    compadd -- ${(f)\"$(paceline ${context:+--context} $context __names $kind "
      "2>/dev/null)\"}\n"
      "    return\n"
      "  fi\n"
      "  if [[ -n $subs ]]; then\n"
      "    compadd -- ${(s: :)subs}\n"
      "  else\n"
      "    _files\n"
      "  fi\n"
      "}\n"
      "if [[ $funcstack[1] == _paceline ]]; then\n"
      "  _paceline \"$@\"\n"
      "else\n"
      "  compdef _paceline paceline\n"
      "fi\n");
}

std::string FishCompletion(const std::vector<CompletionCommand>& commands) {
  std::string known;
  std::string script;
  for (const CompletionCommand& command : commands) {
    const std::string at = absl::StrCat(
        "complete -c paceline -n ", FishQuoted(absl::StrCat("__paceline_at '", command.path, "'")));
    for (const std::string& sub : command.subcommands) {
      const std::string path = absl::StrCat(command.path, " ", sub);
      absl::StrAppend(&known, " ", FishQuoted(path));
      for (const CompletionCommand& other : commands) {
        if (other.path != path) continue;
        absl::StrAppend(&script, at, " -f -a ", sub, " -d ", FishQuoted(other.what), "\n");
      }
    }
    for (const CompletionArgument& argument : command.arguments) {
      if (argument.kind.empty() && argument.choices.empty()) continue;
      const std::string words = argument.kind.empty()
                                    ? absl::StrJoin(argument.choices, " ")
                                    : absl::StrCat("(__paceline_names ", argument.kind, ")");
      absl::StrAppend(&script, at, " -f -a ", FishQuoted(words), " -d ", FishQuoted(argument.what),
                      "\n");
      break;  // The first one, as in the other shells.
    }
    for (const CompletionFlag& flag : command.flags) {
      absl::StrAppend(&script, at, FishFlag(flag), "\n");
    }
  }
  return absl::StrCat(
      "# fish completion of paceline: paceline completion fish | source\n"
      "function __paceline_at\n"
      "  set -l at paceline\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if contains -- \"$at $word\"",
      known,
      "\n"
      "      set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv[1]\"\n"
      "end\n"
      "function __paceline_names\n"
      "  set -l words (commandline -opc)\n"
      "  set -l at (contains -i -- --context $words)\n"
      "  and test (count $words) -gt $at\n"
      "  and set words --context $words[(math $at + 1)]\n"
      "  or set words\n"
      "  paceline $words __names $argv[1] 2>/dev/null\n"
      "end\n",
      script);
}

}  // namespace paceline
