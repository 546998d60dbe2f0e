// Sentences of this pass, and the six questions, whose answers the page computes of the same numbers.
const quoted = (token) => `“${isolated(token)}”`;
const best = (row) => row.reduce((most, x, i) => (x > row[most] || row[most] !== row[most] ? i : most), 0);
const size = (row) => Math.sqrt(dot(row, row));
function digits(x) {
  if (!Number.isFinite(x)) return percent(x).replace("-inf", "−∞");
  const text = x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5) ? x.toExponential(2) : String(+x.toPrecision(4));
  return text.replace("-", "−");
}
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);
const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// What the chosen layer, head and token make of a step.
function toldOf(step, choice) {
  const { layer, head, token } = choice, me = quoted(data.tokens[token]), number = step.attention;
  if (step.kind === "tokens") {
    return `${many(data.tokens.length, "token")}. Chosen is ${me}, number ${token}${data.ids ? `, id ${data.ids[token]}` : ""}.`;
  }
  if (step.kind === "vectors") {
    const rows = numbersOf(step, choice), [name, last] = rows[rows.length - 1];
    const sizes = rows.map(([each, row]) => `${each} ${digits(size(row))}`).join(", ");
    return `${me}: ${name} has ${many(last.length, "number")}. Lengths: ${sizes}.`;
  }
  if (step.kind === "layers") return `The chosen head: layer ${layer}, head ${head} ${data.says[0][layer][head]}.`;
  if (step.kind === "logits" || step.kind === "probabilities") {
    const found = candidatesOf(token);
    return `${data.candidates.labels.length > 1 ? `After ${me}` : "Of the text"}: ${quoted(found.labels[0])} is first, of ${data.candidates.of}, with ${digits(found[step.kind][0])}.`;
  }
  const row = attended(choice, number), keys = keysOf(number), { about } = row;
  if (step.kind === "projections") {
    const group = about.heads / about.kv, first = Math.floor(head / group) * group;
    const peers = Array.from({ length: group }, (_, i) => first + i);
    return group > 1 ? `Heads ${listed(peers)} share keys and values; each has queries of its own.`
      : `Head ${head} has queries, keys and values of its own.`;
  }
  if (step.kind === "rotary") {
    const pairs = pairsOf(choice, step), far = best(pairs.map((pair) => Math.abs(pair.degrees)));
    return `${me} is at place ${token}: pair ${far} turns by ${digits(pairs[far].degrees)}°, whole turns left out.`;
  }
  const at = best(row.weights), share = digits(row.weights[at]);
  if (step.kind === "scores") {
    if (!row.scores) return "This attention keeps no scores.";
    const most = best(row.scores);
    const made = row.dots && isPlain(about)
      ? `: ${digits(row.dots[most])} · ${digits(about.scale)} = ${digits(row.scores[most])}` : `: ${digits(row.scores[most])}`;
    return `${me} fits ${quoted(keys[most])} best${made}${row.excluded[most] ? ", but the mask leaves that out" : ""}.`;
  }
  if (step.kind === "mask") {
    const out = row.excluded.filter(Boolean).length;
    return out ? `${me} sees ${keys.length - out} of ${many(keys.length, "key")}.` : `${me} sees all ${many(keys.length, "key")}.`;
  }
  if (step.kind === "softmax") return `${me} gives ${share} of its weight to ${quoted(keys[at])}. This head ${data.says[number][layer][head]}.`;
  return `${me} takes most from ${quoted(keys[at])}: ${share} of its value.`;
}

// Shares of the weight before, on and after the token.
function directions(row, token) {
  const sum = (from, to) => row.slice(from, to).reduce((total, x) => total + x, 0);
  return [sum(0, token), row[token], sum(token + 1)];
}

// Six questions about the choice, of the first attention, with answers.
function questionsOf(choice) {
  const { layer, head, token } = choice, row = attended(choice, 0), keys = keysOf(0), { about } = row;
  const me = quoted(data.tokens[token]), at = best(row.weights), there = quoted(keys[at]);
  const order = row.weights.map((_, k) => k).sort((a, b) => row.weights[b] - row.weights[a]);
  let needed = 0;
  for (let sum = 0; needed < order.length && sum < 0.9; needed++) sum += row.weights[order[needed]];
  const out = row.excluded.filter(Boolean).length;
  const asked = [];
  const features = row.query.map((x, d) => x * (row.keys[at][d] ?? 0));
  const strongest = features.map((_, d) => d).sort((a, b) => features[b] - features[a]).slice(0, 3);
  const why = !row.scores ? ""
    : ` Its score ${digits(row.scores[at])} is the greatest of those it may see.` + (row.dots
      ? ` Query and key agree most in ${listed(strongest.map((d) => `feature ${d} (${digits(features[d])})`))}.` : "");
  asked.push(["Which token does this head look at, and why?",
    `At ${there}: it gets ${digits(row.weights[at])} of the weight of ${me}.${why}`]);
  asked.push(["How many tokens share 90 % of the weight?",
    `${needed} of ${keys.length - out} that may be seen: ${listed(order.slice(0, Math.min(needed, 4)).map((k) => quoted(keys[k])))}${needed > 4 ? " first" : ""}.`]);
  asked.push(["Which tokens must it not see?", out === 0 ? "None: it sees them all."
    : `${listed(keys.map(quoted).filter((_, k) => row.excluded[k]).slice(0, 4))}${out > 4 ? `, ${out} in all` : ""}: their weight is 0.`]);
  const plain = row.dots && about.normalizer === "softmax" && isPlain(about) && about.scale !== 1;
  if (plain) {
    const kept = row.dots.map((x, k) => (row.excluded[k] ? -Infinity : x)), most = Math.max(...kept);
    const powers = kept.map((x) => Math.exp(x - most)), total = powers.reduce((sum, x) => sum + x, 0);
    asked.push([`What would the weight of ${there} be if scores were not multiplied by ${digits(about.scale)}?`,
      `${digits(powers[at] / total)} instead of ${digits(row.weights[at])}: larger scores leave less for the others.`]);
  } else {
    asked.push(["What would each weight be if all scores were equal?",
      `1 / ${keys.length - out} = ${digits(1 / (keys.length - out))}; ${there} has ${digits(row.weights[at])}.`]);
  }
  const feature = best(row.result.map(Math.abs)), parts = row.values.map((value, k) => row.weights[k] * value[feature]);
  const giver = best(parts.map((x) => x * Math.sign(row.result[feature])));
  asked.push(["Where does the greatest number of the result come from?",
    `Number ${feature} is ${digits(row.result[feature])}; ${quoted(keys[giver])} gives ${digits(parts[giver])} of it: ${digits(row.weights[giver])} · ${digits(row.values[giver][feature])}.`]);
  if (data.candidates && data.candidates.labels.length > 1) {
    const found = candidatesOf(token);
    asked.push([`What does the model expect at ${me}, and how sure is it?`,
      `${quoted(found.labels[0])} with ${digits(found.probabilities[0])}, then ${quoted(found.labels[1])} with ${digits(found.probabilities[1])}; their logits differ by ${digits(found.logits[0] - found.logits[1])}.`]);
  } else {
    const places = data.tokens.map((_, i) => [i, weighed({ ...choice, token: i }, 0).weights]);
    const sure = places.reduce((top, one) => (Math.max(...one[1]) > Math.max(...top[1]) ? one : top));
    asked.push(["Which token is this head most sure about?",
      `${quoted(data.tokens[sure[0]])}: it gives ${digits(Math.max(...sure[1]))} of its weight to ${quoted(keys[best(sure[1])])}.`]);
  }
  return asked;
}
