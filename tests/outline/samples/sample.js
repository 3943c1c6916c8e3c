import { readFile } from 'node:fs';

export const LIMIT = 10;

export function load(path, { flag = true } = {}) {
  function inner() {
    return 1;
  }
  return inner();
}

export default class Shelf extends Map {
  #size = 0;
  static make() {
    return new Shelf();
  }
  get size() {
    return this.#size;
  }
  onClick = (event) => {
    this.#size += 1;
  };
}

const arrow = async (first, second) => {
  await first;
};

function* walk(tree) {
  yield tree;
}

module.exports.old = function (name) {
  return name;
};
